"""Scans all processes of a node, so that one user cannot delay the scan of another user's
processes.

A process's environment and command line are in its own memory. A user can map these pages from a
FUSE mount, or register them with userfaultfd, and so decide when a reader gets an answer.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from slurm_hooks.node import kernel_files

T = TypeVar("T")
_UID = re.compile(r"^Uid:\t([0-9]+)", re.MULTILINE)
PATIENCE_S = 2.0
"""For all processes of one user. Users are scanned in parallel."""


def uid_of(folder: Path) -> int | None:
    """The real user id of a process; ``folder`` is its folder in /proc (proc(5), status). Never
    waits."""
    found = _UID.search(kernel_files.text(str(folder / "status")))
    return int(found[1]) if found else None


def each(
    procfs: Path, look: Callable[[int], T | None], patience_s: float = PATIENCE_S
) -> Iterator[T]:
    """The results of ``look`` for all processes but process 1 and this one, with one thread for
    each user. For contained workers only: a thread that blocks is abandoned.

    Raises ``TimeoutError`` at the end, which names the users whose processes did not answer.
    """
    by_user: dict[int | None, list[int]] = {}
    for name in os.listdir(procfs):  # noqa: PTH208 - names alone are wanted
        if name.isdigit() and int(name) not in (1, os.getpid()):
            by_user.setdefault(uid_of(procfs / name), []).append(int(name))
    found: queue.SimpleQueue[tuple[int | None, T | None, BaseException | None]] = (
        queue.SimpleQueue()
    )
    for uid, pids in by_user.items():
        work = (uid, pids, look, found)
        threading.Thread(target=_look_at, args=work, daemon=True).start()
    until = time.monotonic() + patience_s
    waiting = set(by_user)
    while waiting:
        try:
            uid, item, error = found.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            users = ", ".join(sorted(map(str, waiting)))
            problem = f"processes of uid {users} did not answer within {patience_s:g} s"
            raise TimeoutError(problem) from None
        if error is not None:
            raise error
        if item is None:
            waiting.discard(uid)
        else:
            yield item


def _look_at(
    uid: int | None,
    pids: Sequence[int],
    look: Callable[[int], T | None],
    found: queue.SimpleQueue[tuple[int | None, T | None, BaseException | None]],
) -> None:
    try:
        for pid in pids:
            item = look(pid)
            if item is not None:
                found.put((uid, item, None))
    except BaseException as error:  # noqa: BLE001 - raised again in the main thread
        found.put((uid, None, error))
    else:
        found.put((uid, None, None))
