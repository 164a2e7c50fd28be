"""State that survives a restart: versioned JSON files, replaced atomically.

After a power loss there is the old file or the new one, never a part of either: the new content is on the
disk before its name is (fsync, then rename, then fsync of the folder).
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
    """The content of a state file. ``problem``: one line for the log where it has no usable content."""

    value: dict[str, Any] | None
    problem: str | None = None


def write_atomic(path: Path, text: str, *, mode: int = 0o644, durable: bool = True) -> None:
    """Replace ``path`` by ``text`` atomically; readers see the old or the new content.

    ``durable=False`` skips the fsyncs: for files that are removed at boot (/run). Raises ``OSError``; the
    old file is unchanged then.
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
    """Make renames and removals in the folder durable, where the filesystem supports it."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass  # some network filesystems do not support fsync of folders; the rename itself is done
    finally:
        os.close(fd)


def write_state(path: Path, value: Mapping[str, Any], *, version: int, mode: int = 0o600) -> str:
    """Write ``value`` durably with its version, and create the folder if necessary; returns the text
    written. Raises ``OSError``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({VERSION_KEY: version, **value}, sort_keys=True) + "\n"
    write_atomic(path, text, mode=mode)
    return text


def read_state(path: Path, *, version: int) -> StateRead:
    """What ``write_state`` wrote with this version. Never raises.

    No file: no value and no problem. Incomplete, invalid, unreadable or of another version: no value, and
    one line with the cause; the file is kept for a person to look at.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return StateRead(None)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        return StateRead(None, f"{path}: cannot be read ({reason}); continuing without it")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return StateRead(None, f"{path}: incomplete JSON; continuing without it")
    if not isinstance(document, dict):
        return StateRead(None, f"{path}: not a JSON object; continuing without it")
    found = document.pop(VERSION_KEY, None)
    if found != version:
        return StateRead(
            None, f"{path}: version {str(found)[:40]}, expected {version}; continuing without it"
        )
    return StateRead(document)


def put_aside(path: Path) -> None:
    """Rename a file that could not be read, so that a person can look at it."""
    with contextlib.suppress(OSError):
        path.replace(path.with_suffix(".unreadable"))


def forget(path: Path) -> None:
    """Remove a state file durably, if it exists. Raises ``OSError``."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)
