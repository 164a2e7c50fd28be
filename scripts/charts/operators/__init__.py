"""Operators of other projects, as somebody built them, that really run."""
