"""A small state file that survives a disk that accepts no writes: full, read-only, missing or hung.

Each write goes to memory first (``/run``, emptied at boot) and from there to the disk, in a separate
process that may hang. The copy in memory is removed once the disk has the content; while it exists, it is
the valid one. Two blocks on the disk are reserved beforehand, so that the write succeeds on a full disk.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast.adapters.state_file import (
    VERSION_KEY,
    StateRead,
    forget,
    read_state,
    sync_folder,
    write_atomic,
)

_ROOM_BYTES = 4096
"""The size of each reserved file. A longer text needs new blocks."""

Write = Callable[[], None]
Bounded = Callable[[Write], str]
"""Runs a write with a time limit; returns why it failed, empty when it succeeded."""


def at_once(write: Write) -> str:
    """The write in this process, however long it takes."""
    try:
        write()
    except OSError as error:
        return str(error)
    return ""


class DurableFile:
    """``disk`` is the file, ``memory`` its copy in /run. One writer at a time."""

    def __init__(self, disk: Path, memory: Path, *, version: int) -> None:
        self.disk, self.memory, self._version = disk, memory, version

    @property
    def unwritten(self) -> bool:
        """The disk does not have the newest content."""
        return self.memory.exists()

    def load(self) -> StateRead:
        """The newest content. Never raises."""
        copy, problem = read_state(self.memory, version=self._version)
        if copy is None:
            found = read_state(self.disk, version=self._version)
            return found if found.problem or not problem else StateRead(found.value, problem)
        return StateRead(copy.get("value"))

    def save(self, value: Mapping[str, Any] | None, bounded: Bounded = at_once) -> str:
        """Store ``value``; None: remove it. Returns why the disk does not have it, empty when it does.
        Never raises.
        """
        not_in_memory = self.hand_over(value)
        problem = bounded(lambda: self._write(value))
        if not problem:
            with contextlib.suppress(OSError):
                self.memory.unlink(missing_ok=True)
            return ""
        return f"{problem}; {not_in_memory}" if not_in_memory else problem

    def hand_over(self, value: Mapping[str, Any] | None) -> str:
        """Store ``value`` in memory only, for a later ``settle``. Returns why it failed, else empty."""
        text = json.dumps({VERSION_KEY: self._version, "value": value}, sort_keys=True)
        try:
            self.memory.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.memory, text + "\n", mode=0o600, durable=False)
        except OSError as error:
            return str(error)
        return ""

    def settle(self, bounded: Bounded = at_once) -> str:
        """Write to the disk what is only in memory. Returns why it failed, else empty."""
        if not self.unwritten:
            return ""
        found = self.load()
        return found.problem or self.save(found.value, bounded)

    def set_aside(self) -> None:
        """Reserve the blocks that later writes need. Raises OSError."""
        self.disk.parent.mkdir(parents=True, exist_ok=True)
        for spare in self._spares():
            if not spare.exists():
                write_atomic(spare, " " * _ROOM_BYTES, mode=0o600)

    def _spares(self) -> tuple[Path, Path]:
        return (self.disk.with_suffix(".spare.0"), self.disk.with_suffix(".spare.1"))

    def _write(self, value: Mapping[str, Any] | None) -> None:
        """Raises OSError."""
        self.disk.parent.mkdir(parents=True, exist_ok=True)
        if value is None:
            self._remove()
            return
        text = json.dumps({VERSION_KEY: self._version, **value}, sort_keys=True) + "\n"
        if not self._write_in_place(text.encode()):
            write_atomic(self.disk, text, mode=0o600)

    def _write_in_place(self, data: bytes) -> bool:
        """Write into a reserved file and rename it; no new block is needed. False: there is none, or it
        is too small.
        """
        free = [spare for spare in self._spares() if _of_its_own(spare)]
        if not free or len(data) > _ROOM_BYTES:
            return False
        fd = os.open(free[0], os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.pwrite(fd, data.ljust(_ROOM_BYTES), 0)
            os.fsync(fd)
        finally:
            os.close(fd)
        # The old content's block is the reserve of the next write: a second name keeps it.
        others = [spare for spare in self._spares() if spare != free[0]]
        if self.disk.exists() and not others[0].exists():
            with contextlib.suppress(OSError):
                os.link(self.disk, others[0])
        os.replace(free[0], self.disk)  # noqa: PTH105 - says atomic
        sync_folder(self.disk.parent)
        return True

    def _remove(self) -> None:
        empty = [spare for spare in self._spares() if not spare.exists()]
        if empty and self.disk.exists() and _of_its_own(self.disk):
            os.replace(self.disk, empty[0])  # noqa: PTH105 - its blocks are kept
            sync_folder(self.disk.parent)
        else:
            forget(self.disk)


def _of_its_own(path: Path) -> bool:
    """A whole block with one name: a block with a second name is still the valid content."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_nlink == 1 and found.st_size == _ROOM_BYTES
