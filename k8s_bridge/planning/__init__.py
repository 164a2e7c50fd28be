"""What the bridge decides, from one snapshot of Slurm and one of Kubernetes. Pure."""
