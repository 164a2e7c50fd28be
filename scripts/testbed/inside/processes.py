"""Reading the process table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def parent_of(pid: int) -> int | None:
    """Parent of a process; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


def all_pids() -> Iterator[int]:
    """Every process in this mount of /proc."""
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def first_child(pid: int) -> int | None:
    """The only child of an `unshare --fork`: pid 1 of the new namespace."""
    return next((child for child in sorted(all_pids()) if parent_of(child) == pid), None)
