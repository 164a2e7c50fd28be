"""The one place that says which Holdfast this is."""

VERSION = "0.1.0"
"""Equals ``version`` in pyproject.toml; a test holds them together."""

WIRE = "holdfast/1"
"""The verdict file's format, last word of its first line."""
