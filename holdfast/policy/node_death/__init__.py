"""Whether a node is dead, as its neighbours see it (decision 039). Pure."""
