"""Simulated H100s: a simulated libnvidia-ml.so.1, and a kernel log and a sysfs tree for each node."""

from testbed.h100.library import build_library
from testbed.h100.node import make_node

__all__ = ["build_library", "make_node"]
