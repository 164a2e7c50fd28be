"""The jobs that ran on this node: the hooks' notes, each run with its Xids, counters and processes."""
