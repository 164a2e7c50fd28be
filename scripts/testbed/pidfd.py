"""The end of a pid namespace, watched by pidfd so that a pid that was taken again cannot mislead."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

from testbed.enter import namespace
from testbed.errors import SandboxError
from testbed.inside.processes import all_pids, parent_of

_EXITING = 0x4  # PF_EXITING in linux/sched.h


class Watch:
    """A pid namespace (and those inside it) whose end is waited for; a context. ``pid``: its pid 1.

    The kernel keeps pid 1 of a namespace until every other process in it was reaped. A command that nsenter started is
    reaped by process 1 of the machine once nsenter is gone, and process 1 of some containers reaps nothing. So the
    namespace has ended as well when nothing but zombies is left in it.

    Raises ``ProcessLookupError`` when there is no such process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)
        # Now: what is orphaned later has other parents.
        self._namespaces = {namespace(one) for one in _below(pid)} - {None}

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def kill(self) -> None:
        """Raises ``ProcessLookupError`` when it ended meanwhile."""
        signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def wait(self, problem: str, timeout_s: float = 20) -> None:
        """Until nothing runs in the namespace. Raises ``SandboxError`` with ``problem``."""
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
    """A process and all that descend from it."""
    parents = {one: parent_of(one) for one in all_pids()}
    found, more = {pid}, {pid}
    while more:
        more = {one for one, parent in parents.items() if parent in more} - found
        found |= more
    return found


def _is_ending(pid: int) -> bool:
    """Whether a process is past its last instruction: a zombie, or a pid 1 that waits in its exit."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    fields = stat.rpartition(")")[2].split()
    waits = fields[0] == "S" and int(fields[6]) & _EXITING
    return fields[0] in "ZX" or bool(waits)
