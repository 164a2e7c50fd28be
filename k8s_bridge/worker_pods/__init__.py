"""Slurm's worker pods: which of them may be evicted. A PodDisruptionBudget protects all others."""
