"""Boot id, uptime and name of this machine, from files that need no device."""

from __future__ import annotations

import os
from pathlib import Path


def boot_id(procfs: Path = Path("/proc")) -> str:
    """The kernel's random id of this boot (proc(5), sys/kernel/random/boot_id)."""
    return (procfs / "sys/kernel/random/boot_id").read_text().strip()


def uptime_s(procfs: Path = Path("/proc")) -> float:
    """Seconds since boot, the clock that a verdict's expiry is given in."""
    return float((procfs / "uptime").read_text().split()[0])


def node_name(argument: str | None = None) -> str:
    """This node's name in Slurm: the one that slurmd passes to its hooks, else the host's short
    name."""
    return argument or os.environ.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0]


def stamp(path: Path) -> tuple[int, int]:
    """Changes when the file is replaced or edited; (0, 0) if there is none."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_ino)
