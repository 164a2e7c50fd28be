"""What a machine needs so that the boxes on it can run pods."""

from __future__ import annotations

from pathlib import Path

from testbed.inside import cgroups

DISK_GIB = 1.5
"""The machines' root and the images, and what each machine of a box unpacks."""
BUILD_GIB = 5.0
"""Go's modules and build cache for kubelet and its helpers."""


def missing(own_cgroups: Path = Path("/proc/self/cgroup")) -> str:
    """What this machine lacks, as half a sentence; empty: it can run pods."""
    names = cgroups.missing(own_cgroups.read_text())
    if not names:
        return ""
    return (
        f"no version 1 control groups for {', '.join(names)} on this machine (pods do not run with "
        "version 2 alone yet)"
    )
