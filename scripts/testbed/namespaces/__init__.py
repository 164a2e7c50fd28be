"""Running programs inside the namespaces of a box, and ending them."""
