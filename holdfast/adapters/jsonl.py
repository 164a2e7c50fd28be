"""Append-only files of JSON lines. Readers count incomplete lines and skip them.

Writers never rewrite. A line that a crash or a full disk cut short stays as it is; the next append begins a
new line.
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


class JsonLines(NamedTuple):
    """The records of a file, oldest first, and the number of lines that have none."""

    whole: list[dict[str, Any]]
    malformed: int = 0


def encode(record: dict[str, Any]) -> bytes:
    """One record as a line; values without a JSON type are written as text."""
    return json.dumps(record, default=str).encode() + b"\n"


def append(path: Path, lines: bytes) -> None:
    """Append whole lines and wait until they are on the disk; creates the folder if necessary.

    Raises ``OSError``; then a part of the lines may have been written, and the caller may repeat the
    write. Since users may be able to write to the folder, only a regular file with one name is written, and
    no user's symbolic link is followed.
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
            raise safe_file.not_readable("not a regular file with one name; not written", path)
        size = facts.st_size
        # One write with O_APPEND: the lines of two writers on one machine cannot mix.
        torn = bool(size) and os.pread(descriptor, 1, size - 1) != b"\n"
        data = b"\n" + lines if torn else lines
        if os.write(descriptor, data) != len(data):
            raise OSError("only a part could be written")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def parse(lines: Iterable[bytes]) -> JsonLines:
    """The records of these lines. Empty lines are ignored. Pure."""
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
    return JsonLines(whole, malformed)
