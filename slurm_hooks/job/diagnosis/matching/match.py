"""Which signature a line matches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from slurm_hooks.job.diagnosis.lines.launcher_lines import PREFIX, node_fault_in
from slurm_hooks.job.diagnosis.matching.phrases import PROGRESS
from slurm_hooks.job.signatures import SIGNATURES, Kind, Signature

MAX_LINE_CHARS = 4000
NO_LOG_LINE = frozenset({"L07"})
"""The text of a node's Reason, which no log holds."""

_WRAPPED = re.compile(r": Caught \w+ in (?:DataLoader worker|pin memory thread|replica) ")
"""torch puts such a line before the traceback of the error itself."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when it is first needed: all patterns together take 60 ms and 3 MiB."""
    return re.compile(pattern)


@lru_cache(maxsize=1)
def failure_rows() -> tuple[Signature, ...]:
    """In the order in which they are tried: consequences come late, since a line that also matches
    another row is more than a consequence, and rows for any exception last.
    """
    usable = [
        row for row in SIGNATURES if row.code not in NO_LOG_LINE and row.kind is not Kind.PROGRESS
    ]
    return tuple(sorted(usable, key=lambda row: (row.general, row.kind is Kind.CASCADE)))


@lru_cache(maxsize=1)
def progress_rows() -> tuple[Signature, ...]:
    """The rows that show that the job goes on."""
    return tuple(row for row in SIGNATURES if row.kind is Kind.PROGRESS)


def clean(text: str) -> str:
    """The part of a line that patterns see: without colours, and not longer than they can stand."""
    if len(text) > MAX_LINE_CHARS:
        half = MAX_LINE_CHARS // 2
        text = text[:half] + text[-half:]
    return _COLOUR.sub("", text) if "\x1b" in text else text


@lru_cache(maxsize=1000)
def _rows_of(codes: frozenset[str]) -> tuple[Signature, ...]:
    return tuple(row for row in failure_rows() if row.code in codes)


def failure_in(text: str, codes: frozenset[str] | None = None) -> Signature | None:
    """The first signature of a failure that fits a line that is not the launcher's; ``codes``: those to
    try, default all."""
    rows, text = failure_rows() if codes is None else _rows_of(codes), clean(text)
    if _WRAPPED.search(text):
        rows = tuple(row for row in rows if row.kind is Kind.CASCADE)
    return _first(rows, text)


def progress_in(text: str) -> Signature | None:
    """The first signature of progress that fits a line."""
    text = clean(text)
    lower = text.lower()
    rows = (row for row in progress_rows() if any(word in lower for word in PROGRESS[row.code]))
    return _first(rows, text)


def _first(rows: Iterable[Signature], text: str) -> Signature | None:
    for row in rows:
        if _compiled(row.pattern).search(text):
            return row
    return None


def first_row(one: Signature | None, other: Signature | None) -> Signature | None:
    """Of two signatures of failures, the one that is tried first."""
    if one is None or other is None:
        return one or other
    return next(row for row in failure_rows() if row in (one, other))


def match(text: str) -> tuple[Signature, re.Match[str]] | None:
    """The first signature of a failure that fits a line, and its match."""
    text = clean(text)
    if text.startswith(PREFIX):
        return node_fault_in(text)
    row = failure_in(text)
    found = search(row, text) if row else None
    return (row, found) if row and found else None


def search(row: Signature, text: str) -> re.Match[str] | None:
    """The match of one signature."""
    return _compiled(row.pattern).search(clean(text))
