"""One agent per node: a lock that the kernel releases however its holder exits."""

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
    """``fd`` holds the lock while it is open. ``crashed``: the previous holder in this boot did not
    release it.
    """

    fd: int
    crashed: bool = False


def path_in(run: Path) -> Path:
    return run / "agent.lock"


def take(path: Path) -> HeldLock | None:
    """The lock; None if another agent holds it.

    The file contains the holder's pid. Workers close all descriptors, so none of them keeps the
    lock. Any process that can open the file can lock it, so only its owner may open it. ``holder``
    also takes the lock for some microseconds, so a refusal counts only if it lasts.
    """
    until = time.monotonic() + _PATIENCE_S
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)  # in an earlier release all users could read it
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_held(fd, path):
                break
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(fd)
                return None
            time.sleep(_AGAIN_S)
        os.close(fd)  # the file was replaced meanwhile, so this lock has no effect
    crashed = bool(os.pread(fd, 32, 0).strip())
    with contextlib.suppress(
        OSError
    ):  # /run is full: ``holder`` then returns 0, which also means a holder
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return HeldLock(fd, crashed)


def is_held(fd: int, path: Path) -> bool:
    """Whether this is still the lock that others would take: the file was not removed or replaced."""
    try:
        there = path.stat()
    except OSError:
        return False
    mine = os.fstat(fd)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def release(fd: int) -> None:
    """Release the lock after a clean stop, so that the next agent knows that this one did not
    crash."""
    os.ftruncate(fd, 0)
    os.close(fd)


def hand_over(fd: int) -> None:
    """Pass the lock to the program that this process is about to execute. It is held without a gap,
    so that no health check starts another agent in between.
    """
    os.set_inheritable(fd, True)
    os.environ[_HANDED_OVER] = str(fd)


def inherited(path: Path) -> HeldLock | None:
    """The lock that this process held before it executed this program; None if it held none."""
    number = os.environ.pop(_HANDED_OVER, "")
    if not number.isdigit():
        return None
    fd = int(number)
    try:
        os.set_inheritable(fd, False)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_held(fd, path):
            return HeldLock(fd)
        os.close(fd)
    except OSError:
        pass  # not a valid descriptor
    return None


def holder(run: Path) -> int | None:
    """Pid of the running agent (0: not written yet); None if none is running."""
    try:
        fd = os.open(path_in(run), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        words = os.read(fd, 32).split()
        return int(words[0]) if words and words[0].isdigit() else 0
    finally:
        os.close(fd)
    return None
