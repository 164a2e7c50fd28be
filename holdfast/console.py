"""What a command says to the person who typed it: the only place that writes to the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def say(text: str) -> None:
    """One answer on standard output."""
    sys.stdout.write(text + "\n")


def complain(text: str) -> None:
    """One line on standard error: what is wrong, and what to do."""
    sys.stderr.write(text + "\n")


def say_json(value: Any) -> None:
    """The answer for programs: keys in the order in which they were put, times in epoch seconds."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def table(rows: Iterable[Sequence[str]]) -> str:
    """Rows as columns that line up; the first row is the heading. Cells are one line each."""
    cells = [[" ".join(cell.split()) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)
