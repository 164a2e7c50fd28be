"""One agent on a node: a lock that the kernel gives back however its holder ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def path_in(run: Path) -> Path:
    return run / "agent.lock"


def take(path: Path) -> int | None:
    """The descriptor that holds the lock as long as it is open; None when somebody else has it.

    The file tells the holder's pid. Workers close every descriptor, so none of them keeps it.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def holder(run: Path) -> int | None:
    """Pid of the agent that runs (0: it has not said yet); None when none does."""
    try:
        fd = os.open(path_in(run), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        said = os.read(fd, 32).split()
        return int(said[0]) if said and said[0].isdigit() else 0
    finally:
        os.close(fd)
    return None
