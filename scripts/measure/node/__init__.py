"""Benchmarks of one node: what a prolog, a probe, a check, a drain and a restart cost."""
