"""Which checkpoint an attempt resumes from, and how the command learns it."""
