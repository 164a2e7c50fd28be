"""The kinds of faults: of GPUs, of the host, in the kernel log."""
