"""Node health seen from the jobs: what happened to a job's GPUs while it ran, and what it left
behind.
"""
