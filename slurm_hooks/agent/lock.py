"""One agent on a node: a lock that the kernel gives back however its holder ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import NamedTuple

_PATIENCE_S = 0.3
_AGAIN_S = 0.01
_HANDED_OVER = "HOLDFAST_AGENT_LOCK_FD"


class HeldLock(NamedTuple):
    """``fd`` holds the lock as long as it is open. ``crashed``: who held it before, in this boot,
    did not give it back in order.
    """

    fd: int
    crashed: bool = False


def path_in(run: Path) -> Path:
    return run / "agent.lock"


def take(path: Path) -> HeldLock | None:
    """The lock; None when another agent has it.

    The file tells the holder's pid. Workers close every descriptor, so none of them keeps it. Whoever
    may open it may lock it, so only its owner may.
    ``holder`` holds it too while it looks, for microseconds: a refusal counts only if it lasts.
    """
    until = time.monotonic() + _PATIENCE_S
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)  # an earlier release let everybody read it
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_held(fd, path):
                break
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(fd)
                return None
            time.sleep(_AGAIN_S)
        os.close(fd)  # or the file was replaced meanwhile: what we hold is nobody's lock
    crashed = bool(os.pread(fd, 32, 0).strip())
    with contextlib.suppress(OSError):  # /run is full: ``holder`` answers 0, which is a holder too
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return HeldLock(fd, crashed)


def is_held(fd: int, path: Path) -> bool:
    """Whether this is still the lock that others would take: nobody removed or replaced the file."""
    try:
        there = path.stat()
    except OSError:
        return False
    mine = os.fstat(fd)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def release(fd: int) -> None:
    """Leave in order: the next agent knows that this one did not crash."""
    os.ftruncate(fd, 0)
    os.close(fd)


def hand_over(fd: int) -> None:
    """For the program that this process is about to become: it holds the lock without a gap, so that
    no health check finds it free and starts another agent meanwhile.
    """
    os.set_inheritable(fd, True)
    os.environ[_HANDED_OVER] = str(fd)


def inherited(path: Path) -> HeldLock | None:
    """The lock that this process held before it became this program; None when it held none."""
    word = os.environ.pop(_HANDED_OVER, "")
    if not word.isdigit():
        return None
    fd = int(word)
    try:
        os.set_inheritable(fd, False)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_held(fd, path):
            return HeldLock(fd)
        os.close(fd)
    except OSError:
        pass  # no descriptor of ours
    return None


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
