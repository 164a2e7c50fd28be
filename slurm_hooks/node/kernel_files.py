"""Reads small files of /proc and /sys with as few system calls as possible. A file that cannot be
read gives an empty result, never an error.
"""

from __future__ import annotations

import os

LONGEST = 1 << 16


def text(path: str) -> str:
    """The file's text without surrounding white space; empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, LONGEST).decode(errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


def number(path: str) -> int | None:
    """The integer in the file; None if it holds none."""
    return whole(text(path))


def whole(word: str) -> int | None:
    """An unsigned integer of 64 bits as the kernel writes it. None for anything else."""
    if not (word.isascii() and word.isdigit() and len(word) <= 20):
        return None
    value = int(word)
    return value if value < 1 << 64 else None


def word(path: str) -> str:
    """``4: ACTIVE`` as ``ACTIVE``."""
    return text(path).rpartition(":")[2].strip()


def names(folder: str) -> list[str]:
    """The names in a folder, sorted; empty if it cannot be read."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - Path costs twice as much
    except OSError:
        return []
