"""Waits for the end of a pid namespace, by pidfd: a reused pid cannot be mistaken for it."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

from testbed.errors import SandboxError
from testbed.inside.processes import all_pids, parent_of
from testbed.namespaces.enter import namespace

_EXITING = 0x4  # PF_EXITING in linux/sched.h


class Watch:
    """Context manager that waits for the end of a pid namespace and those inside it. ``pid``: its pid 1.

    The kernel keeps pid 1 of a namespace until every other process in it is reaped. Process 1 of the
    machine reaps a command that nsenter started once nsenter has exited, and process 1 of some
    containers reaps nothing. So a namespace that holds only zombies counts as ended too.

    Raises ``ProcessLookupError`` when there is no such process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)
        # Read now: processes that are orphaned later get other parents.
        self._namespaces = {namespace(member) for member in _below(pid)} - {None}

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def kill(self) -> None:
        """Raises ``ProcessLookupError`` when it has ended."""
        signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def wait(self, problem: str, timeout_s: float = 20) -> None:
        """Wait until nothing runs in the namespace. Raises ``SandboxError`` with ``problem`` on a time-out."""
        poll, end = select.poll(), time.monotonic() + timeout_s
        poll.register(self._fd, select.POLLIN)
        while not poll.poll(100) and not self._only_zombies():
            if time.monotonic() > end:
                raise SandboxError(f"{problem} within {timeout_s:g} s")

    def _only_zombies(self) -> bool:
        inside = [pid for pid in all_pids() if namespace(pid) in self._namespaces]
        return all(_is_ending(pid) for pid in inside)


def end_namespace(pid: int, timeout_s: float = 20) -> None:
    """Kill pid 1 of a pid namespace and wait until nothing runs in it. Raises ``SandboxError`` after ``timeout_s``."""
    try:
        with Watch(pid) as watch:
            watch.kill()
            watch.wait(f"process {pid} does not end", timeout_s)
    except ProcessLookupError:
        pass


def _below(pid: int) -> set[int]:
    """A process and all its descendants."""
    parents = {process: parent_of(process) for process in all_pids()}
    found, more = {pid}, {pid}
    while more:
        more = {child for child, parent in parents.items() if parent in more} - found
        found |= more
    return found


def _is_ending(pid: int) -> bool:
    """Whether a process has exited: a zombie, or a pid 1 that waits in its exit."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    fields = stat.rpartition(")")[2].split()
    waits = fields[0] == "S" and int(fields[6]) & _EXITING
    return fields[0] in "ZX" or bool(waits)
