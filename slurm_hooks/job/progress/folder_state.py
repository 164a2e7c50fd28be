"""A short description of a checkpoint folder that differs after each change, also while a file grows."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from holdfast.records.job_journal import FOLDER

_MAX_DEPTH = 6
_MAX_ENTRIES = 20_000
T = TypeVar("T")


def folder_state(folder: Path) -> tuple[int, int, int]:
    """Number of files, their sizes in all, and the latest time stamp. Reads no file and follows no link
    below ``folder``. Raises OSError."""
    count = size = latest = 0
    left = [(str(folder), 0)]
    while left and count < _MAX_ENTRIES:
        path, depth = left.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name == FOLDER or count >= _MAX_ENTRIES:
                    continue
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                count, size = count + 1, size + facts.st_size
                latest = max(latest, facts.st_mtime_ns)
                if stat.S_ISDIR(facts.st_mode) and depth < _MAX_DEPTH:
                    left.append((entry.path, depth + 1))
    return count, size, latest


class Abandonable(Generic[T]):
    """Calls a function that a filesystem may block for ever, in a thread that is then left behind."""

    def __init__(self, call: Callable[[], T], timeout_s: float) -> None:
        self._call, self._timeout_s = call, timeout_s
        self._thread: threading.Thread | None = None

    def result(self) -> T | None:
        """None: it raised OSError, or it has not answered in time, or an earlier call still has not."""
        if self._thread is not None and self._thread.is_alive():
            return None
        found: list[T] = []
        self._thread = threading.Thread(target=self._run, args=(found,), daemon=True)
        self._thread.start()
        self._thread.join(self._timeout_s)
        return found[0] if found else None

    def _run(self, found: list[T]) -> None:
        try:
            found.append(self._call())
        except OSError:
            return
