"""A copy of the last configuration that this node's agent accepted.

A file that cannot be used must not leave a node unwatched: until it is mended, what begins anew (an
agent after a crash or a reboot, a hook) goes on with the copy. It lies in one fixed place, since
``paths.state`` of a broken file is not known.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from holdfast.adapters.state_file import read_state, write_state
from holdfast.config.convert import Problem
from holdfast.config.load import Document
from holdfast.config.schema import PathsConfig
from holdfast.errors import ConfigError

VERSION = 1


def path_of_copy() -> Path:
    """In the default ``paths.state``; ``HOLDFAST_STATE`` is another folder."""
    return Path(os.environ.get("HOLDFAST_STATE") or PathsConfig().state) / "accepted.json"


def copy_of(config: Path) -> str | None:
    """The text of this file that was accepted last; None where there is none that can be read."""
    said, _ = read_state(path_of_copy(), version=VERSION)
    if said is None or said.get("path") != str(config.absolute()):
        return None
    text = said.get("text")
    return text if isinstance(text, str) else None


def keep(config: Path, text: str) -> None:
    """Make this the copy; root's alone, as the file itself may be. Raises OSError."""
    if copy_of(config) != text:
        write_state(path_of_copy(), {"path": str(config.absolute()), "text": text}, version=VERSION)


def read(config: Path) -> Document:
    """The file. One that is gone since it was accepted is a problem, for its defaults are not what the
    site wants; without a copy, no file means all defaults.
    """
    document = Document(config)
    if document.text is None and not document.problems and copy_of(config) is not None:
        text = "there is no such file any more; put it back, or an empty one for all defaults"
        document.problems.append(Problem(1, "", text))
    return document


def in_force(config: Path, judge: Callable[[Document], object]) -> tuple[Document, tuple[str, ...]]:
    """The document that this node goes by; and, where that is the copy, the problems of the file.
    Without a copy it is the file as it stands, unjudged.

    ``judge`` is what the agent makes of a document: the whole of it counts, whatever part is asked
    for. A hook that went by half a file would look for the verdict where no agent writes it.
    """
    document, copy = read(config), copy_of(config)
    if copy is None or document.text == copy:
        return document, ()
    try:
        judge(document)
        document.refuse()
    except ConfigError as error:
        return Document(path_of_copy(), text=copy), tuple(str(error).splitlines())
    return document, ()
