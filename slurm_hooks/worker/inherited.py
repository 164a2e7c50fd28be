"""Children of the program that this process executed before this one: workers that had not exited yet.

They stay children of this process, and nothing else knows them: without a wait they remain zombies.
"""

from __future__ import annotations

import os
from pathlib import Path


class InheritedChildren:
    """To be made before this program starts a child of its own."""

    def __init__(self, procfs: Path = Path("/proc")) -> None:
        self._pids = _children(procfs)

    def reap(self) -> bool:
        """Reaps those that have exited. Never waits. Returns whether some are left."""
        self._pids = [pid for pid in self._pids if not _exited(pid)]
        return bool(self._pids)


def _children(procfs: Path) -> list[int]:
    """Empty where the kernel does not list them (CONFIG_PROC_CHILDREN)."""
    try:
        text = (procfs / f"self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _exited(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:  # reaped by the worker that knows it by its token
        return True
