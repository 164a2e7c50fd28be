"""Faults for a box, as a person would name them: `xid 79 --gpu 3`, `mount-hung /mnt/training`."""

from testbed.faults.apply import active, heal, inject
from testbed.faults.catalogue import KINDS

__all__ = ["KINDS", "active", "heal", "inject"]
