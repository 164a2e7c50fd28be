"""The kernel log: its records, and what they report."""
