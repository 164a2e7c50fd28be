"""A copy of the last configuration that this node's agent accepted.

An invalid file must not stop the monitoring of a node: until it is corrected, hooks and a restarted
agent use the copy. The copy has a fixed path, because ``paths.state`` of an invalid file is
unknown.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from holdfast.adapters.state_file import read_state, write_state
from holdfast.config.convert import Problem
from holdfast.config.load import YamlDocument
from holdfast.config.schema import PathsConfig
from holdfast.errors import ConfigError

VERSION = 1


def path_of_copy() -> Path:
    """In the default ``paths.state``; ``HOLDFAST_STATE`` is another folder."""
    return Path(os.environ.get("HOLDFAST_STATE") or PathsConfig().state) / "accepted.json"


def copy_of(config: Path) -> str | None:
    """The text of this file that was accepted last; None if there is no readable copy."""
    value, _ = read_state(path_of_copy(), version=VERSION)
    if value is None or value.get("path") != str(config.absolute()):
        return None
    text = value.get("text")
    return text if isinstance(text, str) else None


def keep(config: Path, text: str) -> None:
    """Save this text as the copy. Only root can read it, as may be the case for the file. Raises
    OSError."""
    if copy_of(config) != text:
        write_state(path_of_copy(), {"path": str(config.absolute()), "text": text}, version=VERSION)


def read(config: Path) -> YamlDocument:
    """The file. If it was accepted once and is missing now, that is a problem: the defaults are not
    what the site wants. Without a copy, a missing file means all defaults.
    """
    document = YamlDocument(config)
    if document.text is None and not document.problems and copy_of(config) is not None:
        text = "this file no longer exists; restore it, or create an empty one for all defaults"
        document.problems.append(Problem(1, "", text))
    return document


def in_force(
    config: Path, judge: Callable[[YamlDocument], object]
) -> tuple[YamlDocument, tuple[str, ...]]:
    """The document that this node uses, and if that is the copy, the problems of the file. Without
    a copy it is the file as it is, not validated.

    ``judge`` validates a document as the agent does, with all its sections, whichever one is
    needed. A hook that used a partly valid file might look for the verdict where the agent does not
    write it.
    """
    document, copy = read(config), copy_of(config)
    if copy is None or document.text == copy:
        return document, ()
    try:
        judge(document)
        document.refuse()
    except ConfigError as error:
        return YamlDocument(path_of_copy(), text=copy), tuple(str(error).splitlines())
    return document, ()
