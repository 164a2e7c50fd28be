"""The job's side: the launcher, checkpoints, the journal, and the diagnosis of failures."""
