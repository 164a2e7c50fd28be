"""What runs inside a box, under the Python of the box's root: standard library and this folder only."""
