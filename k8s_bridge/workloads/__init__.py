"""Workloads of Kubernetes: all pods of one are restarted together when one is lost to a node fault."""
