"""Faults to inject into a box, such as `xid 79 --gpu 3` or `mount-hung /mnt/training`."""

from testbed.faults.apply import active, heal, inject
from testbed.faults.catalogue import KINDS

__all__ = ["KINDS", "active", "heal", "inject"]
