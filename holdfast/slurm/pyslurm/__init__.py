"""Slurm through pyslurm: a client, and the process that imports pyslurm."""
