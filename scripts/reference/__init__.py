"""Generates pages of docs/reference from the code: configuration, checks, faults, node states, Terraform."""
