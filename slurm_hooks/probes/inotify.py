"""inotify(7) through ctypes: wait for changes of a file instead of polling it."""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass
from pathlib import Path

MODIFY, MOVED_TO, CREATE, DELETE = 0x2, 0x80, 0x100, 0x200
UNLINKED = 0x4 | 0x400 | 0x800
"""The watched file was renamed, unlinked (its link count changed) or removed."""

_EVENT = struct.Struct("iIII")


@dataclass(frozen=True, slots=True)
class FileChange:
    """``watch``: the value that ``add`` returned. ``name``: the file inside a watched folder."""

    watch: int
    mask: int
    name: str


class Inotify:
    """One inotify instance. ``fd`` is readable after a change; ``read`` never blocks."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"inotify: {os.strerror(code)}")

    def add(self, path: Path, mask: int) -> int:
        """Watch ``path``. Raises OSError, as open does."""
        watch = int(self._libc.inotify_add_watch(self.fd, os.fsencode(path), mask))
        if watch < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
        return watch

    def read(self) -> list[FileChange]:
        changes: list[FileChange] = []
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return changes
            at = 0
            while at < len(data):
                watch, mask, _, size = _EVENT.unpack_from(data, at)
                at += _EVENT.size
                name = os.fsdecode(data[at : at + size].rstrip(b"\0"))
                at += size
                changes.append(FileChange(watch, mask, name))

    def close(self) -> None:
        os.close(self.fd)
