"""Scans all processes of a node, so that one user cannot delay the scan of another user's
processes.

A user may have thousands of uids (``/etc/subuid``), so those of one job are scanned together.

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
_JOB = re.compile(r"^[0-9]+:[^:\n]*:(/[^\n]*?)?/job_([0-9]{1,10})(?:/|$)", re.MULTILINE)
_LOGIN = "/user"
"""Below such a cgroup a user may create others, with any name."""
_MOST_USERS = 64
"""Outside of jobs. The processes of all further ones are scanned together."""
_MOST_NAMED = 8
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
    each job and for each user outside of jobs. For contained workers only: a thread that blocks is
    abandoned.

    Raises ``TimeoutError`` at the end, which names the jobs and users whose processes did not answer.
    """
    by_owner = _by_owner(procfs)
    found: queue.SimpleQueue[tuple[str, T | None, BaseException | None]] = queue.SimpleQueue()
    for owner, pids in by_owner.items():
        work = (owner, pids, look, found)
        threading.Thread(target=_look_at, args=work, daemon=True).start()
    until = time.monotonic() + patience_s
    waiting = set(by_owner)
    while waiting:
        try:
            owner, item, error = found.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            names = ", ".join(sorted(waiting)[:_MOST_NAMED])
            more = f" and {len(waiting) - _MOST_NAMED} others" * (len(waiting) > _MOST_NAMED)
            problem = f"processes of {names}{more} did not answer within {patience_s:g} s"
            raise TimeoutError(problem) from None
        if error is not None:
            raise error
        if item is None:
            waiting.discard(owner)
        else:
            yield item


def _by_owner(procfs: Path) -> dict[str, list[int]]:
    """The pids of each job, by cgroup, and of each user outside of jobs."""
    found: dict[str, list[int]] = {}
    users: set[int | None] = set()
    for name in os.listdir(procfs):  # noqa: PTH208 - names alone are wanted
        if not name.isdigit() or int(name) in (1, os.getpid()):
            continue
        job = _JOB.search(kernel_files.text(str(procfs / name / "cgroup")))
        if job is not None and _LOGIN not in (job[1] or ""):
            owner = f"job {job[2]}"
        else:
            uid = uid_of(procfs / name)
            if len(users) < _MOST_USERS:
                users.add(uid)
            owner = f"uid {uid}" if uid in users else "other users"
        found.setdefault(owner, []).append(int(name))
    return found


def _look_at(
    owner: str,
    pids: Sequence[int],
    look: Callable[[int], T | None],
    found: queue.SimpleQueue[tuple[str, T | None, BaseException | None]],
) -> None:
    try:
        for pid in pids:
            item = look(pid)
            if item is not None:
                found.put((owner, item, None))
    except BaseException as error:  # noqa: BLE001 - raised again in the main thread
        found.put((owner, None, error))
    else:
        found.put((owner, None, None))
