"""Small files of /proc and /sys, read as cheaply as Python can. What cannot be read is empty, never
an error.
"""

from __future__ import annotations

import os

LONGEST = 1 << 16


def text(path: str) -> str:
    """The file's text without surrounding white space; empty where it cannot be read."""
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
    """The file's whole number, None where it holds none."""
    return whole(text(path))


def whole(word: str) -> int | None:
    """A whole number as the kernel writes one: 64 bits, not negative. None for anything else."""
    if not (word.isascii() and word.isdigit() and len(word) <= 20):
        return None
    value = int(word)
    return value if value < 1 << 64 else None


def word(path: str) -> str:
    """``4: ACTIVE`` as ``ACTIVE``."""
    return text(path).rpartition(":")[2].strip()


def names(folder: str) -> list[str]:
    """What is in a folder, sorted; nothing where it cannot be read."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - a Path for each name costs twice
    except OSError:
        return []
