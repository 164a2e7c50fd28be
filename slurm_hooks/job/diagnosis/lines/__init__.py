"""What one line of a log says by itself: its time, host and rank, and whether it is source code."""
