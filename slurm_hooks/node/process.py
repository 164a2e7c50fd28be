"""A process as the kernel reports it, from files that never wait for that process."""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MAX_ENVIRONMENT_BYTES = 1 << 20
"""A process can set the bounds of its environment to any part of its memory (prctl(2), PR_SET_MM).
"""


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    start: int

    def alive(self, procfs: str = "/proc") -> bool:
        """Whether it is still the same process, and not a zombie."""
        found = process_state(self.pid, procfs)
        return found is not None and found[1] == self.start and found[0] not in "ZX"


def process_state(pid: int, procfs: str = "/proc") -> tuple[str, int] | None:
    """(state letter, start time in ticks since boot), or None once the pid is gone (proc(5))."""
    try:
        text = Path(procfs, str(pid), "stat").read_text(errors="replace")
        rest = text.rsplit(")", 1)[1].split()
        return rest[0], int(rest[19])
    except (OSError, IndexError, ValueError):
        return None


def environment(folder: Path) -> bytes:
    """The first part of a process's environment; ``folder`` is its folder in /proc. Raises OSError.
    May wait for a lock of that process's memory, so only for contained workers and for the user's
    own processes."""
    with (folder / "environ").open("rb", buffering=0) as file:
        data = b""
        while len(data) < MAX_ENVIRONMENT_BYTES:
            chunk = file.read(MAX_ENVIRONMENT_BYTES - len(data))
            if not chunk:
                break
            data += chunk
    return data


def send(pid: int, number: int, is_it: Callable[[], bool]) -> bool:
    """Send a signal to the process with this pid if ``is_it`` confirms that it is the right
    process. Returns whether the signal was sent.

    ``is_it`` is called after a pidfd of the process was opened, so that a process that reuses the
    pid never receives the signal (pidfd_open(2)). Raises PermissionError.
    """
    fd = -1
    try:
        fd = _descriptor(pid)
        if not is_it():
            return False
        if fd < 0:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)
    return True


def _descriptor(pid: int) -> int:
    """-1 on a kernel before 5.3: then only the check before the signal protects. Raises
    ProcessLookupError."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return -1


def evidence_of(pid: int, procfs: str = "/proc") -> str:
    """Where a hung process sleeps. Reads only files that need no lock of that process's memory."""
    state = process_state(pid, procfs)
    parts = [f"state {state[0]}" if state else "gone"]
    for name in ("wchan", "stack"):
        try:
            text = Path(procfs, str(pid), name).read_text(errors="replace")
        except OSError:
            continue
        words = [line.split()[-1] for line in text.splitlines() if line.split()][:4]
        if words and words != ["0"]:
            parts.append(f"{name} {' < '.join(words)}")
    return ", ".join(parts)


def catches(procfs: Path, pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal. Without one, the signal would only end it."""
    try:
        text = (procfs / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return False
    found = re.search(r"^SigCgt:\s*([0-9a-fA-F]{1,32})$", text, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def ask_for_stacks(procfs: Path, pid: int, is_it: Callable[[], bool]) -> bool:
    """Sends SIGABRT if the process has a handler for it: Python's faulthandler then prints the stacks of all threads,
    also while the program is inside a library, and the process ends. Returns whether it was sent. Raises
    PermissionError."""
    if not catches(procfs, pid, signal.SIGABRT):
        return False
    _prevent_core_file(pid)
    return send(pid, signal.SIGABRT, is_it)


def _prevent_core_file(pid: int) -> None:
    """The memory of a training is large. A limit of 1 byte also prevents a core that is piped to a program
    (core(5))."""
    with suppress(OSError, ValueError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
        soft = 1 if hard == resource.RLIM_INFINITY else min(1, hard)
        resource.prlimit(pid, resource.RLIMIT_CORE, (soft, hard))
