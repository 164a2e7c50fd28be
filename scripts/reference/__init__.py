"""The generated pages of docs/reference: what the code itself says of its configuration, checks and faults."""
