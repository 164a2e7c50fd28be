"""What happened to nodes and GPUs: events, the files they lie in, and the lemon score."""
