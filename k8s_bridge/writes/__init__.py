"""From a plan to writes: their order, what waits, and the requests to both sides."""
