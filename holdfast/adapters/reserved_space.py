"""Reserved space for a few writes on a full filesystem: files created beforehand, with their blocks.

A write to blocks that a file already has needs no new blocks, and exchanging two names (renameat2(2),
RENAME_EXCHANGE) frees none, so other processes cannot take them. Works on tmpfs and on disk filesystems,
including overlayfs. Where the kernel or the filesystem does not support the exchange, a rename replaces the
file, and the reserve shrinks by one.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from holdfast.adapters.state_file import write_atomic

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_BLOCK_BYTES = 512
"""Unit of ``st_blocks`` (stat(2))."""


class ReservedSpace:
    """``count`` files ``.NAME.reserve-N`` of ``size`` bytes each, in the folder of the file to write."""

    def __init__(self, folder: Path, name: str, *, size: int, count: int) -> None:
        self._size = size
        self._paths = [folder / f".{name}.reserve-{number}" for number in range(count)]
        self._whole = False

    def write(self, path: Path, text: str, *, mode: int = 0o644) -> None:
        """Replace ``path`` by ``text`` atomically, from the reserve where the filesystem is full.

        In the reserve, the text is padded with blanks to ``size``. A reader that takes longer than
        ``count`` such writes may see parts of two of them. Raises OSError, with ``path`` unchanged, where
        that fails too.
        """
        try:
            write_atomic(path, text, mode=mode, durable=False)
        except OSError as error:
            if error.errno not in _FULL or not self._write_reserved(path, text.encode(), mode):
                raise
        else:
            if not self._whole:
                self.fill()

    def fill(self) -> None:
        """Create the missing files. Where the filesystem is full, a later write tries again."""
        self._whole = sum(map(self._make, self._paths)) == len(self._paths)

    def _make(self, path: Path) -> bool:
        if self._is_reserve(path):
            return True
        try:
            path.unlink(missing_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            os.posix_fallocate(fd, 0, self._size)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            return False
        finally:
            os.close(fd)
        return True

    def _is_reserve(self, path: Path) -> bool:
        try:
            return path.lstat().st_blocks * _BLOCK_BYTES >= self._size
        except OSError:
            return False

    def _write_reserved(self, path: Path, data: bytes, mode: int) -> bool:
        """False: the reserve is empty, or the text is longer than one of its files."""
        if len(data) > self._size:
            return False
        self._whole = False
        # The oldest one: a slow reader may still have the newest open.
        available = [path for path in self._paths if self._is_reserve(path)]
        for spare in sorted(available, key=lambda file: file.lstat().st_mtime_ns):
            try:
                fd = os.open(spare, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                written = os.pwrite(fd, data.ljust(self._size), 0)
                os.fchmod(fd, mode)
            except OSError:
                continue
            finally:
                os.close(fd)
            if written == self._size:
                self._put(spare, path)
                return True
        return False

    def _put(self, spare: Path, path: Path) -> None:
        """``spare`` becomes ``path``; the old content becomes the reserve if it is as large."""
        if not _exchange(spare, path):
            os.replace(spare, path)  # noqa: PTH105 - says atomic
        elif not self._is_reserve(spare):
            with contextlib.suppress(OSError):
                spare.unlink()


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names atomically. False where one of them is missing, or the swap is not supported."""
    import ctypes  # noqa: PLC0415 - hooks, which only read, start without it

    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # glibc before 2.28
        return False
    names = os.fsencode(first), os.fsencode(second)
    return bool(swap(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)
