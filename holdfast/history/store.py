"""The files of the history: one for each node name, bounded, appended to by that node only.

``FOLDER/worker-3.jsonl`` and, older, ``FOLDER/worker-3.jsonl.1``. The folder may be on a filesystem that
all nodes share: then a GPU's past is found wherever it was. Every call may hang with the filesystem, so an
agent makes them only in a worker process.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.adapters import jsonl, safe_file
from holdfast.history.event import Event, of_record

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_SUFFIX = ".jsonl"
_OLDER = ".1"
_MAX_BYTES = 256 << 20
"""The limit for reading one file: far more than any ``max_bytes``."""
_MAX_FILES = 200_000


class HistoryLines(NamedTuple):
    """``events`` oldest first; ``skipped``: the number of lines without an event; ``problems``, one line each."""

    events: list[Event]
    skipped: int = 0
    problems: tuple[str, ...] = ()


def file_of(folder: Path, node: str) -> Path:
    """The file with that node's newest events."""
    name = _UNSAFE.sub("_", node).lstrip(".") or "_"
    return folder / (name + _SUFFIX)


def append(folder: Path, node: str, lines: bytes, *, max_bytes: int) -> None:
    """Add a node's events; its two files together stay below about ``max_bytes``.

    Raises ``OSError``. When the newer file is full, it replaces the older one.
    """
    path = file_of(folder, node)
    try:
        full = path.lstat().st_size + len(lines) > max_bytes // 2
    except FileNotFoundError:
        full = False
    if full:
        path.replace(_older(path))
    jsonl.append(path, lines)


def _older(path: Path) -> Path:
    return path.with_name(path.name + _OLDER)


def read(
    folder: Path, nodes: Collection[str] | None = None, *, words: Collection[str] | None = None
) -> HistoryLines:
    """The events of these nodes' files (None: of all). Never raises.

    ``words``: only lines that contain one of them; other lines are not parsed. An event that was
    written twice (a write that failed in the middle is repeated) counts once.
    """
    paths = _files(folder) if nodes is None else [file_of(folder, node) for node in nodes]
    needles = None if words is None else [word.encode() for word in words]
    found: dict[bytes, None] = {}
    problems = []
    for path in (each for newest in paths for each in (_older(newest), newest)):
        try:
            data = safe_file.read_bytes(path, max_bytes=_MAX_BYTES)
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"{path}: cannot be read ({error.strerror or error})")
            continue
        if needles is None or any(needle in data for needle in needles):
            found.update(dict.fromkeys(_holding(data.splitlines(), needles)))
    records = jsonl.parse(found)
    events = [event for record in records.whole if (event := of_record(record)) is not None]
    skipped = records.malformed + len(records.whole) - len(events)
    return HistoryLines(sorted(events, key=lambda event: event.t), skipped, tuple(problems))


def _holding(lines: Iterable[bytes], needles: list[bytes] | None) -> Iterator[bytes]:
    for line in lines:
        if needles is None or any(needle in line for needle in needles):
            yield line


def _files(folder: Path) -> list[Path]:
    """The newer file of every node that has one of the two."""
    try:
        entries = safe_file.scan(folder, most=_MAX_FILES)
        names = {entry.name.removesuffix(_OLDER) for entry in entries}
    except OSError:
        return []
    return [folder / name for name in sorted(names) if name.endswith(_SUFFIX)]
