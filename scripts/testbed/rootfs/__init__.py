"""What a box runs: root filesystems of Slurm releases, their layers, and Holdfast itself."""
