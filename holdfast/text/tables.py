"""Tables and long lines of commands: the only module that imports rich.

Without a width each row is one line, for pipes and files. With one, cells wrap at words. Pure.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from holdfast.text import printable

_GAP = "  "
_LABEL_CHARS = 12
"""Where the text begins on a line like ``  reason    holdfast:XID79: …``."""
_MIN_WIDTH = 20
_LEAST = 3
"""Characters for each other column beside a first column that keeps its width."""


def table(rows: Iterable[Sequence[str]], width: int | None = None, indent: int = 0) -> str:
    """Rows as aligned columns; the first row is the heading. Each cell is one line of text.

    ``width``: the most columns of the screen to use, with ``indent``; None: as many as needed.
    """
    cells = [[printable.line(" ".join(cell.split())) for cell in row] for row in rows]
    if not cells:
        return ""
    room = None if width is None else max(width - indent, _MIN_WIDTH)
    lines = _plain(cells) if room is None else _wrapped(cells, room)
    return "\n".join((" " * indent + line).rstrip() for line in lines)


def _plain(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    for row in cells:
        yield _GAP.join(cell.ljust(size) for cell, size in zip(row, widths, strict=True))


def _wrapped(cells: Sequence[Sequence[str]], width: int) -> list[str]:
    from rich.console import Console  # noqa: PLC0415 - 70 ms, and only on a terminal
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, len(_GAP), 0, 0))
    for whole in _unbroken(cells, width):
        grid.add_column(overflow="fold", no_wrap=whole)
    for row in cells:
        grid.add_row(*map(Text, row))  # Text, not str: rich reads markup in a str
    screen = io.StringIO()
    console = Console(file=screen, width=width, color_system=None, force_terminal=False)
    console.print(grid)
    return screen.getvalue().splitlines()


def _unbroken(cells: Sequence[Sequence[str]], width: int) -> list[bool]:
    """The columns that keep their width.

    The first one has the names: it does so unless a name needs over half of the screen, or leaves the
    other columns no room. Other columns of single words do if the words of all columns fit beside them.
    """
    columns = list(zip(*cells, strict=True))
    longest = [
        max(len(word) for cell in column for word in cell.split() or [""]) for column in columns
    ]
    others = len(columns) - 1
    fit = sum(longest) + len(_GAP) * others <= width
    room = width - (len(_GAP) + _LEAST) * others
    keeps = [fit or longest[0] <= min(width // 2, room), *[fit] * others]
    return [
        keep and all(" " not in cell for cell in column)
        for keep, column in zip(keeps, columns, strict=True)
    ]


def fitted(page: str, width: int | None = None) -> str:
    """The page with its long lines wrapped at words; the rest of a line is indented below its text."""
    if width is None:
        return page
    lines = (part for line in page.splitlines() for part in _fitted(line, width))
    return "\n".join(lines)


def _fitted(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    label = line[:_LABEL_CHARS]
    labelled = label.startswith("  ") and label.endswith(" ") and line[_LABEL_CHARS] != " "
    indent = _LABEL_CHARS if labelled else 2 + len(line) - len(line.lstrip())
    return textwrap.wrap(
        line[indent:] if labelled else line.lstrip(),
        max(width, _MIN_WIDTH + _LABEL_CHARS),
        initial_indent=label if labelled else line[: len(line) - len(line.lstrip())],
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
