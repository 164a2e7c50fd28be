"""Checks the output of ``holdfast render`` against the charts, schemas and scripts of its users."""
