"""A small state file that is also kept where the disk takes nothing: full, read-only, gone or hung.

Each write goes to memory first (``/run``, which no boot survives) and from there to the disk, in a
process that can be left behind. The copy in memory goes once the disk has it; while it is there, it
is what counts. Two blocks on the disk are set aside beforehand, so that a full disk takes the write
all the same.
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
"""Of each file set aside. A longer text needs room of its own."""

Write = Callable[[], None]
Bounded = Callable[[Write], str]
"""Calls a write and gives up after a while; answers why it did not succeed, empty when it did."""


def at_once(write: Write) -> str:
    """The write in this process, however long it takes."""
    try:
        write()
    except OSError as error:
        return str(error)
    return ""


class DurableFile:
    """``disk`` is where it belongs, ``memory`` the copy in /run. One writer at a time."""

    def __init__(self, disk: Path, memory: Path, *, version: int) -> None:
        self.disk, self.memory, self._version = disk, memory, version

    @property
    def unwritten(self) -> bool:
        """The disk does not have the newest content."""
        return self.memory.exists()

    def load(self) -> StateRead:
        """The newest content. Never raises."""
        said, problem = read_state(self.memory, version=self._version)
        if said is None:
            found = read_state(self.disk, version=self._version)
            return found if found.problem or not problem else StateRead(found.value, problem)
        return StateRead(said.get("value"))

    def save(self, value: Mapping[str, Any] | None, bounded: Bounded = at_once) -> str:
        """Keep ``value``; None: there is nothing. Answers why the disk has it not, empty when it has.
        Never raises.
        """
        unkept = self.hand_over(value)
        problem = bounded(lambda: self._write(value))
        if not problem:
            with contextlib.suppress(OSError):
                self.memory.unlink(missing_ok=True)
            return ""
        return f"{problem}; {unkept}" if unkept else problem

    def hand_over(self, value: Mapping[str, Any] | None) -> str:
        """Keep ``value`` in memory alone, for whoever settles it. Answers why it could not."""
        said = json.dumps({VERSION_KEY: self._version, "value": value}, sort_keys=True)
        try:
            self.memory.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.memory, said + "\n", mode=0o600, durable=False)
        except OSError as error:
            return str(error)
        return ""

    def settle(self, bounded: Bounded = at_once) -> str:
        """Write to the disk what is only in memory. Answers why it could not."""
        if not self.unwritten:
            return ""
        found = self.load()
        return found.problem or self.save(found.value, bounded)

    def set_aside(self) -> None:
        """Take the room that later writes need. Raises OSError."""
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
        """Into a file set aside, which then takes the place of the old one; no new block is needed.
        False: there is none, or it is too small.
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
        # The old content's block is the spare of the next write: a second name keeps it.
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
            os.replace(self.disk, empty[0])  # noqa: PTH105 - its room is kept
            sync_folder(self.disk.parent)
        else:
            forget(self.disk)


def _of_its_own(path: Path) -> bool:
    """A whole block that no other name shares: one that does is still the content that counts."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_nlink == 1 and found.st_size == _ROOM_BYTES
