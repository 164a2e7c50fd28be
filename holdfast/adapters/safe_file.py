"""Open and read files that a user may have created, safely.

* Only a regular file is opened: a named pipe would block the reader for ever, and opening a device can
  have effects. The file is checked through an ``O_PATH`` descriptor before it is opened.
* As root, a symbolic link is followed only if root or the reader created it, in each part of the path:
  else a user who can create a link in a folder would choose what root reads. Other users follow any link,
  with their own rights.
* Nothing is read beyond a limit that the caller sets.

Each part of a path is opened relative to the previous one, so a path that is changed meanwhile does not lead
elsewhere. Linux, open(2): O_PATH, O_NOFOLLOW; readlinkat(2) with an empty path.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

_MAX_LINKS = 40
"""As the kernel's own limit (path_resolution(7))."""
_MAX_PARTS = 4096
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
}


class NotReadable(OSError):
    """The file exists and is not read; ``strerror`` is one line with the cause and what to do."""


class TooLarge(Exception):
    """A library tried to read more of a file than its reader allows."""


class Opened(NamedTuple):
    """An open file, its size in bytes and its owner's uid when it was opened."""

    file: IO[bytes]
    size_bytes: int
    owner: int


def open_regular(path: Path, *, buffer_bytes: int = -1) -> Opened:
    """The regular file at ``path``. Raises ``OSError``, among them ``NotReadable``.

    ``buffer_bytes``: read ahead so much, default: as Python does.
    """
    look = _resolve(path)
    try:
        _refuse_all_but_regular(os.fstat(look), path)
        # The same file, even if its path now leads to another one.
        fd = os.open(f"/proc/self/fd/{look}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(look)
    facts = os.fstat(fd)
    return Opened(os.fdopen(fd, "rb", buffer_bytes), facts.st_size, facts.st_uid)


def open_secret(path: Path) -> Opened:
    """As ``open_regular``, for a file that nobody but its owner can use: others are refused."""
    opened = open_regular(path)
    if os.fstat(opened.file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        opened.file.close()
        raise not_readable("others than its owner can use it (chmod 600)", path)
    return opened


def open_folder(path: Path) -> int:
    """A descriptor of the folder at ``path``, for ``os.scandir``. Raises ``OSError``."""
    look = _resolve(path)
    try:
        if not stat.S_ISDIR(os.fstat(look).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return os.open(f"/proc/self/fd/{look}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(look)


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """The whole file. Raises ``OSError``, among them ``NotReadable`` for one larger than that."""
    with open_regular(path).file as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise not_readable(f"larger than {max_bytes >> 10} KiB", path)
    return data


def lines(file: IO[bytes], *, max_line_bytes: int, max_bytes: int | None = None) -> Iterator[bytes]:
    """The lines of a file without their line feeds; of a longer line only its first bytes.

    ``max_bytes``: the rest of the file is left out, so that reading ends while somebody else appends.
    """
    whole, left = True, max_bytes
    while left is None or left > 0:
        chunk = file.readline(max_line_bytes if left is None else min(max_line_bytes, left))
        if not chunk:
            return
        if whole:
            yield chunk.rstrip(b"\n")
        whole = chunk.endswith(b"\n")
        left = None if left is None else left - len(chunk)


def scan(folder: Path, *, most: int) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder. An entry's methods work until the next one is fetched; its ``path`` is
    only its name. Raises ``OSError``, among them ``NotReadable`` for more than ``most`` entries.
    """
    fd = open_folder(folder)
    try:
        with os.scandir(fd) as entries:
            for count, entry in enumerate(entries):
                if count >= most:
                    raise not_readable(f"more than {most} entries in this folder", folder)
                yield entry
    finally:
        os.close(fd)


class Limited:
    """A file of which at most ``max_bytes`` can be read in total, at any position; a further read raises
    ``TooLarge``. For libraries that trust the sizes that a file declares (zipfile, pickle).
    """

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        self._file, self._left = file, max_bytes
        self.peek = getattr(file, "peek", None)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        return self._counted(data)

    def readline(self, size: int = -1) -> bytes:
        return self._counted(
            self._file.readline(min(size, self._left + 1) if size >= 0 else self._left + 1)
        )

    def readinto(self, buffer: bytearray) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise TooLarge("the sizes that it declares are larger than the read limit")
        return data


def not_readable(why: str, path: Path) -> NotReadable:
    return NotReadable(errno.EINVAL, why, str(path))


def _refuse_all_but_regular(facts: os.stat_result, path: Path) -> None:
    kind = stat.S_IFMT(facts.st_mode)
    if kind != stat.S_IFREG:
        raise not_readable(f"not a regular file: {_KINDS.get(kind, 'of another kind')}", path)


def _resolve(path: Path) -> int:
    """An ``O_PATH`` descriptor of the target of ``path``; only permitted links are followed."""
    trusted = {0, os.geteuid()}
    left = list(reversed(path.parts or (".",)))
    here = os.open("/" if path.is_absolute() else ".", _LOOK | os.O_DIRECTORY)
    links = parts = 0
    try:
        while left:
            part = left.pop()
            parts += 1
            if parts > _MAX_PARTS:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(path))
            # An absolute part, "/", leads to the root, not relative to the previous one.
            there = os.open(part, _LOOK, dir_fd=here)
            facts = os.fstat(there)
            if not stat.S_ISLNK(facts.st_mode):
                here, there = there, here
                os.close(there)
                continue
            try:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                if os.geteuid() == 0 and facts.st_uid not in trusted:
                    raise not_readable(
                        f"{part} is a symbolic link of uid {facts.st_uid}, which root does not follow: "
                        "use the path that it points to",
                        path,
                    )
                left += reversed(_target(there, path))
            finally:
                os.close(there)
    except BaseException:
        os.close(here)
        raise
    return here


def _target(link: int, path: Path) -> tuple[str, ...]:
    """The target of a link. A link in /proc to a pipe or a deleted file has none (proc(5))."""
    target = os.readlink("", dir_fd=link)
    if not target:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return Path(target).parts
