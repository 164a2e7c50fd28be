"""The sandbox: a real Slurm and a real Kubernetes with simulated H100s, in namespaces of one machine."""
