"""What happened to nodes and GPUs: events, their files, and the lemon score."""
