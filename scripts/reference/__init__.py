"""Generates pages of docs/reference from the code: configuration, checks and faults."""
