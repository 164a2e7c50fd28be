"""Append-only files of JSON lines: a line is there as a whole, or readers count it and go on.

Whoever appends never rewrites. A line that a crash or a full disk cut short stays as it is, and never
swallows the next one: the next append begins on a line of its own.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.adapters import safe_file

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Records(NamedTuple):
    """Every whole line of a file, oldest first, and how many lines were none."""

    whole: list[dict[str, Any]]
    malformed: int = 0


def encode(record: dict[str, Any]) -> bytes:
    """One record as a line with its end; what JSON does not know is written as its text."""
    return json.dumps(record, default=str).encode() + b"\n"


def append(path: Path, lines: bytes) -> None:
    """Adds whole lines and waits until they are on disk, making the folder if need be.

    Raises ``OSError``; a part of the lines may have been written then, and writing them again is
    the caller's choice. Only a regular file with one name is written, through no symbolic link that a
    user made: the folder may be one to which users can write.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = safe_file.open_folder(path.parent)
    try:
        descriptor = os.open(path.name, _FLAGS, 0o644, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            raise safe_file.not_readable("not a regular file with one name: not written to", path)
        size = facts.st_size
        # One write with O_APPEND: two writers on one machine cannot mix their lines.
        torn = bool(size) and os.pread(descriptor, 1, size - 1) != b"\n"
        data = b"\n" + lines if torn else lines
        if os.write(descriptor, data) != len(data):
            raise OSError("only a part could be written")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def parse(lines: Iterable[bytes]) -> Records:
    """The records of these lines. Empty lines are none and count as nothing. Pure."""
    whole, malformed = [], 0
    for line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            whole.append(record)
        else:
            malformed += 1
    return Records(whole, malformed)
