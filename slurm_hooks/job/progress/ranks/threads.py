"""What the threads of a process do, from the user's own view of ``/proc`` (proc(5)).

No right is needed beyond those of the user. The kernel's stack is readable by root only; of it, ``wchan`` tells
the function in which a thread sleeps. No address is read.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

_STAT = re.compile(r"\d+ \((?P<name>.*)\) (?P<state>\S) (?P<parent>\d+) ", re.DOTALL)
_FUNCTION = re.compile(r"[A-Za-z_]\w{0,79}", re.ASCII)
_MAX_THREADS = 4096
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """``cpu_s``: CPU time that it has used. ``place``: kernel function in which it sleeps, empty: none."""

    name: str
    state: str
    parent: int
    cpu_s: float
    place: str = ""


def thread(folder: Path) -> Thread | None:
    """The thread or process of a folder in /proc; None: it is gone."""
    try:
        text = (folder / "stat").read_text(errors="replace")
    except OSError:
        return None
    found = _STAT.match(text)
    if found is None:
        return None
    fields = text[found.end() :].split()
    return Thread(
        name=found["name"],
        state=found["state"],
        parent=int(found["parent"]),
        cpu_s=(int(fields[9]) + int(fields[10])) / _TICKS_PER_S,
        place=_place(folder),
    )


def main_thread(procfs: Path, pid: int) -> Thread | None:
    """The first thread of a process; the process's own folder has the CPU time of all of them."""
    return thread(procfs / str(pid) / "task" / str(pid))


def _place(folder: Path) -> str:
    try:
        text = (folder / "wchan").read_text(errors="replace")
    except OSError:
        return ""
    found = _FUNCTION.match(text)
    return found[0] if found else ""


@dataclass(slots=True)
class Places:
    """Where threads sleep. ``blocked``: those in state D."""

    counts: Counter[str] = field(default_factory=Counter)
    blocked: set[str] = field(default_factory=set)

    def add(self, procfs: Path, pid: int) -> None:
        """All threads of a process."""
        folder = procfs / str(pid) / "task"
        try:
            folders = list(islice(folder.iterdir(), _MAX_THREADS))
        except OSError:
            return
        for one in folders:
            found = thread(one)
            if found is None:
                continue
            self.counts[found.place or found.state] += 1
            if found.state == "D":
                self.blocked.add(found.place or "kernel")
