"""Holdfast's benchmarks, each compared with a baseline or a rival in the same run (``scripts/bench``)."""
