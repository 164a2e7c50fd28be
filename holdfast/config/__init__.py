"""Configuration: one YAML file becomes frozen dataclasses, with every problem named at once."""
