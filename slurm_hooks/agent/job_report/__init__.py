"""Reports for jobs: what happened to a job's GPUs while it ran, and which processes it left behind."""
