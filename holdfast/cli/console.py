"""The output of the commands that people type: of these, the only module that writes to the terminal.
``holdfast run``, hooks and agent write logs of their own.

Part of the output comes from users (job names, lines of logs, file names), so control characters are
escaped. Tables are made in ``holdfast.text.tables``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from typing import Any, TextIO

from holdfast.text import printable

_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,8}m)")


def say(text: str) -> None:
    """Print the answer on standard output."""
    _write(sys.stdout, printable.page(text))


def say_coloured(text: str) -> None:
    """As ``say``, with colours. The caller has escaped all text from users."""
    parts = _COLOUR.split(text)
    parts[::2] = map(printable.page, parts[::2])
    _write(sys.stdout, "".join(parts))


def say_document(text: str) -> None:
    """Print a document exactly as it is: it goes to a file or another program."""
    sys.stdout.write(text)


def complain(text: str) -> None:
    """Print one line on standard error: what is wrong, and what to do."""
    _write(sys.stderr, printable.page(text))


def say_json(value: Any, *, indent: int | None = 2) -> None:
    """Print the answer as JSON: keys in their order, times in epoch seconds."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    _write(sys.stdout, printable.json_text(text))


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    # Characters that the terminal's encoding does not have are escaped, never an error.
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def clear_screen() -> None:
    """Begin a new screen; on a terminal only."""
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[H\x1b[2J")


def screen_width() -> int | None:
    """Columns of the terminal, or COLUMNS; None where neither is known (a pipe, a file)."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size((80, 24)).columns
    return None
