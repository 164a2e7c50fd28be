"""The benchmark of the bridge with thousands of nodes."""
