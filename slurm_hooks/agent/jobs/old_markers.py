"""The marker folder of an earlier release, which was writable for every user: moved, read once,
removed.

Any user may have put folders, pipes or links in it, tens of thousands of them. No link is followed,
nothing is waited for, and only regular files that belong to the job's own user are read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker


def put_aside(folder: Path) -> list[Path]:
    """Renames the folder if others than root can write to it, and makes it accessible for root
    only. Returns all folders that were renamed so, also by an earlier agent that could not remove
    them. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        if folder.lstat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            folder.chmod(0o700)
            folder.rename(folder.with_name(f".{folder.name}.old-{time.time_ns()}"))
    return sorted(folder.parent.glob(f".{folder.name}.old-*"))


def of_jobs(folders: Sequence[Path], jobs: Mapping[int, Set[int]]) -> Iterator[Marker]:
    """The markers that launchers of an earlier release left for these jobs (uid → numbers)."""
    for folder in folders:
        for uid, numbers in jobs.items():
            for job in numbers:
                marker = read_users(folder / f"{job}.json", uid)
                if marker is not None and marker.job == job:
                    yield marker


def read_users(path: Path, uid: int) -> Marker | None:
    """The marker in a regular file that belongs to this user; None for anything else. Never waits."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != uid:
            return None
        return replace(markers.decoded(os.read(descriptor, markers.MAX_BYTES + 1)), owner=uid)
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)


def open_removal() -> Callable[[Any], Iterator[Any]]:
    """For a worker: removes the given folders with their content."""

    def serve(folders: Any) -> Iterator[Any]:
        for folder in folders:
            # rmtree works with descriptors, so it follows no link, even one that replaces a folder meanwhile.
            shutil.rmtree(folder)
        yield from ()

    return serve
