"""Starts and ends a box: checks of the host, Slurm's configuration, the control plane, removal."""
