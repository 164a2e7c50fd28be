"""Small facts that survive a restart: versioned JSON files, replaced as a whole or not at all.

A power loss at any moment leaves the old file or the new one, never half of either: the new content
is on the disk before its name is (fsync, then rename, then fsync of the folder).
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

VERSION_KEY = "version"


class StateRead(NamedTuple):
    """What a state file held. ``problem`` is one line for the log when it held nothing usable."""

    value: dict[str, Any] | None
    problem: str | None = None


def write_atomic(path: Path, text: str, *, mode: int = 0o644, durable: bool = True) -> None:
    """Replace ``path`` by ``text`` in one step; readers see the old or the new one.

    ``durable=False`` leaves out the fsyncs: for files that no boot survives (/run). Raises
    ``OSError``; the old file is untouched then.
    """
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(fd, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor, no path
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            if durable:
                os.fsync(stream.fileno())
        os.replace(name, path)  # noqa: PTH105 - says atomic
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make what was renamed or removed in the folder durable, where the filesystem can."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass  # some network filesystems have no fsync for folders; the rename itself is done
    finally:
        os.close(fd)


def write_state(path: Path, value: Mapping[str, Any], *, version: int, mode: int = 0o600) -> str:
    """Write ``value`` durably with its version, making the folder if need be; returns the text
    written. Raises ``OSError``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({VERSION_KEY: version, **value}, sort_keys=True) + "\n"
    write_atomic(path, text, mode=mode)
    return text


def read_state(path: Path, *, version: int) -> StateRead:
    """What ``write_state`` wrote with this version. Never raises.

    No file: nothing, and no problem. Half-written, garbage, unreadable or of another version:
    nothing, and one line that says so; the file itself is left for a person to look at.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return StateRead(None)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        return StateRead(None, f"{path}: cannot be read ({reason}); going on without it")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return StateRead(None, f"{path}: not whole JSON; going on without it")
    if not isinstance(document, dict):
        return StateRead(None, f"{path}: no JSON object; going on without it")
    found = document.pop(VERSION_KEY, None)
    if found != version:
        return StateRead(
            None, f"{path}: version {str(found)[:40]}, expected {version}; going on without it"
        )
    return StateRead(document)


def put_aside(path: Path) -> None:
    """Keep a file that could not be read for a person to look at; the next write takes its place."""
    with contextlib.suppress(OSError):
        path.replace(path.with_suffix(".unreadable"))


def forget(path: Path) -> None:
    """Remove a state file, durably; fine when there is none. Raises ``OSError`` otherwise."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)
