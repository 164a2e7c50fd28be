"""Writes the Terraform templates of ``terraform/`` from the templates of ``holdfast render``."""
