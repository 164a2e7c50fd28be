"""Configuration: one YAML file becomes frozen dataclasses; all problems are reported at once."""
