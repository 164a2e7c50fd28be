"""What one program of Holdfast writes for another to read: the format is in one place, and its reader.

``verdict_file``  a node's state, from its agent to the hooks.
``job_journal``   a job's attempts, from one launcher to the next.
``incidents``     a job's incidents in Slurm, from the agents to the launcher.
"""
