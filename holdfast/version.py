"""The version of Holdfast, and of the verdict file's format."""

VERSION = "0.1.0"
"""Equals ``version`` in pyproject.toml; a test compares them."""

WIRE = "holdfast/1"
"""The verdict file's format, last word of its first line."""
