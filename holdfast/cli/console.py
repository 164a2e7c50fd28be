"""What a command says to the person who typed it: the only place that writes to the terminal.

Much of it was written by users (names of jobs, lines of logs, files' names), so nothing that a terminal
would act on gets through.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from holdfast import printable

_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,8}m)")


def say(text: str) -> None:
    """One answer on standard output."""
    _write(sys.stdout, printable.page(text))


def say_coloured(text: str) -> None:
    """As ``say``, with colours. The caller has escaped whatever in it is not its own."""
    parts = _COLOUR.split(text)
    parts[::2] = map(printable.page, parts[::2])
    _write(sys.stdout, "".join(parts))


def complain(text: str) -> None:
    """One line on standard error: what is wrong, and what to do."""
    _write(sys.stderr, printable.page(text))


def say_json(value: Any, *, indent: int | None = 2) -> None:
    """The answer for programs: keys in the order in which they were put, times in epoch seconds."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    _write(sys.stdout, printable.json_text(text))


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    # A terminal of another encoding gets an escape for what it has not, never an error.
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def table(rows: Iterable[Sequence[str]]) -> str:
    """Rows as columns that line up; the first row is the heading. Cells are one line each."""
    cells = [[printable.line(" ".join(cell.split())) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)
