"""Finds complete checkpoints. It needs no torch and does not change any file."""
