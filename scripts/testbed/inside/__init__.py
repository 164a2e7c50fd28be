"""Programs that run inside a box, with the Python of its root; they use the standard library only."""
