"""What runs for a job: the launcher, its checkpoints and journal, the diagnosis, and what follows
the job's end.
"""
