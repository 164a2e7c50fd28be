"""What the bridge decides about: Nodes, records of ownership, and the changes that a plan consists of."""
