"""The rules by which signals of Kubernetes drain nodes in Slurm: what they are, and how they are configured."""
