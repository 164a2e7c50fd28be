"""Lays out the rows of ``holdfast check`` for a given width. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from holdfast.text.printable import line as one_line
from slurm_hooks.cli.check.row import BLIND, FATAL, INFO, OK, WARN, Row, Style

_COLOURS = {FATAL: "1;31", WARN: "33", BLIND: "35", INFO: "36", OK: "32"}
_GAP = "  "
_HEAD = ("CHECK", "SUBJECT", "VALUE", "LIMIT", "VERDICT")
_SUBJECT, _VALUE, _LIMIT = 1, 2, 3
_VALUE_CHARS = 24
"""With less room for the value, each row becomes a paragraph."""
_WIDE = 110
_SIDE_CHARS, _SIDE_CHARS_WIDE = 18, 24
"""Maximum width of subject and of limit, on terminals narrower than ``_WIDE`` and on others."""


def lines(rows: Sequence[Row], style: Style) -> Iterator[str]:
    """The rows, in their order, as lines."""
    widths = _widths([_HEAD, *map(_cells, rows)], style.width)
    if widths[_VALUE] < min(_VALUE_CHARS, max((len(row.value) for row in rows), default=0)):
        yield from _paragraphs(rows, style)
    else:
        yield from _table(rows, widths, style)


def _cells(row: Row) -> tuple[str, ...]:
    texts = (row.check, row.name, row.value, row.limit, row.verdict)
    return tuple(one_line(" ".join(text.split())) for text in texts)


def _todo(row: Row) -> str:
    return one_line(f"{row.code}: {row.remedy}" if row.code else row.remedy)


def _table(rows: Sequence[Row], widths: Sequence[int], style: Style) -> Iterator[str]:
    yield from _lines(_HEAD, widths, style, "")
    for row, after in zip(rows, (*rows[1:], None), strict=True):
        yield from _lines(_cells(row), widths, style, row.verdict)
        if row.remedy and not (after and (after.check, after.code) == (row.check, row.code)):
            yield from _remedy(row, style)


def _widths(cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Every column as wide as needed; the value gets the rest."""
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
    side = _SIDE_CHARS if width < _WIDE else _SIDE_CHARS_WIDE
    widths[_SUBJECT], widths[_LIMIT] = min(widths[_SUBJECT], side), min(widths[_LIMIT], side)
    left = width - sum(widths) + widths[_VALUE] - len(_GAP) * (len(widths) - 1)
    widths[_VALUE] = min(widths[_VALUE], left) if left > 0 else 0
    return widths


def _lines(
    cells: Sequence[str], widths: Sequence[int], style: Style, verdict: str
) -> Iterator[str]:
    """One row of the table. A long cell continues on the next line; in an ok row it is cut with `…`
    (``--all`` shows all of it).
    """
    texts, room = list(cells), list(widths)
    if cells[_LIMIT] == "-":  # no limit: the value gets that room too
        room[_VALUE] += len(_GAP) + room.pop(_LIMIT)
        texts.pop(_LIMIT)
    short = verdict == OK and not style.all_rows
    wrapped = [
        [_cut(text, width)] if short else textwrap.wrap(text, width) or [""]
        for text, width in zip(texts, room, strict=True)
    ]
    for number in range(max(map(len, wrapped))):
        line = [part[number] if number < len(part) else "" for part in wrapped]
        *padded, _ = [text.ljust(width) for text, width in zip(line, room, strict=True)]
        yield _GAP.join((*padded, _coloured(line[-1], verdict, style))).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1].rstrip(" ,;") + "…"


def _paragraphs(rows: Sequence[Row], style: Style) -> Iterator[str]:
    width = max(style.width, 20)
    for row in rows:
        check, name, value, limit, verdict = _cells(row)
        if verdict == OK and not style.all_rows:
            text = _cut(f"{verdict} {check}: {name}: {value}", width)
            yield text.replace(verdict, _coloured(verdict, verdict, style), 1)
            continue
        head = textwrap.wrap(f"{verdict} {check}: {name}", width, subsequent_indent="  ")
        head[0] = head[0].replace(verdict, _coloured(verdict, verdict, style), 1)
        yield from head
        text = f"{value} (limit: {limit})" if limit not in ("", "-") else value
        yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ")
        if row.remedy:
            yield from _remedy(row, style)


def _remedy(row: Row, style: Style) -> Iterator[str]:
    width = max(style.width, 20)
    yield from textwrap.wrap(_todo(row), width, initial_indent="  > ", subsequent_indent="    ")


def _coloured(text: str, verdict: str, style: Style) -> str:
    if not style.colour or verdict not in _COLOURS or not text:
        return text
    return f"\x1b[{_COLOURS[verdict]}m{text}\x1b[0m"
