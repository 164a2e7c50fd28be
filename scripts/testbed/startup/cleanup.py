"""Locks so that one `up` or `down` of a box runs at a time; removal of what killed runs left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.inside.cgroups import CGROUP_FILE
from testbed.paths import box_folder, boxes, may_be_name
from testbed.running_box import RunningBox

KEPT_S = 3600.0
"""How long the logs of a box that ended by itself are kept."""


@contextlib.contextmanager
def only_one(name: str) -> Iterator[None]:
    """Waits until no other process starts or ends this box.

    The lock file is removed with the box's folder.
    """
    with _locked(name, fcntl.LOCK_EX):
        yield


def sweep(now: float) -> None:
    """Remove folders and locks of boxes that ended more than an hour before ``now`` (epoch seconds).

    The processes, mounts and namespaces of a box always end with it; only files remain.
    """
    if not boxes().is_dir():
        return
    found = [path for path in boxes().iterdir() if path.is_dir() or path.suffix == ".lock"]
    for name in sorted({path.name.removeprefix(".").removesuffix(".lock") for path in found}):
        if may_be_name(name) and now - _touched(name) > KEPT_S and RunningBox.look(name) is None:
            with contextlib.suppress(BlockingIOError), _locked(name, fcntl.LOCK_EX | fcntl.LOCK_NB):
                remove(box_folder(name))


def remove(folder: Path) -> None:
    """Remove a box's folder, and the control groups of its machines, which outlive their processes."""
    for listing in folder.glob(f"pods/*/{CGROUP_FILE}"):
        for line in listing.read_text().splitlines():
            controllers, _, path = line.partition(" ")
            _remove_cgroup(
                Path("/sys/fs/cgroup") / controllers.removeprefix("name=") / path.lstrip("/")
            )
    shutil.rmtree(folder, ignore_errors=True)


def _remove_cgroup(top: Path) -> None:
    """A group can be removed once its last process has been reaped, a moment after it ended."""
    end = time.monotonic() + 10
    for folder, _, _ in os.walk(top, topdown=False):
        while Path(folder).exists():
            try:
                Path(folder).rmdir()
            except OSError:
                if time.monotonic() > end:
                    break
                time.sleep(0.02)


def _touched(name: str) -> float:
    """When the box last changed a file (epoch seconds)."""
    folder = box_folder(name)
    signs = (folder, folder / "supervisor.log", folder / "life.json", _lock_of(name))
    return max((path.stat().st_mtime for path in signs if path.exists()), default=0.0)


def _lock_of(name: str) -> Path:
    folder = box_folder(name)
    return folder.parent / f".{name}.lock"


@contextlib.contextmanager
def _locked(name: str, how: int) -> Iterator[None]:
    folder, path = box_folder(name), _lock_of(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as lock:
            fcntl.flock(lock, how)
            if not path.exists() or path.stat().st_ino != os.fstat(lock.fileno()).st_ino:
                continue  # removed meanwhile: another process may hold a new one
            try:
                yield
            finally:
                if not folder.exists():
                    path.unlink()
            return
