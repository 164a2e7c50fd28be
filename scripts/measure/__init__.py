"""Holdfast's figures, each beside its floor or rival from the same run (``scripts/bench``)."""
