"""Kubernetes: the calls that the bridge makes, their client, the watch of all Nodes."""
