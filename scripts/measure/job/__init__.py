"""Measurements of the launcher, and of what it reads: logs and checkpoints."""
