"""Slurm's hostlist notation: ``worker-[0-3,7],gpu[01-02]`` ↔ node names. Pure.

Supports what slurmctld prints and accepts for nodes: any number of brackets in a name, ranges with
leading zeros, commas between and inside.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_RANGE = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?")
_TAIL = re.compile(r"(.*?)([0-9]{1,9})", re.DOTALL)
MAX_NODES = 1_000_000
"""No cluster has as many nodes; a larger range comes from a forged or damaged record."""


def expand(text: str) -> list[str]:
    """The names in the order of the text. Raises ``ValueError`` for an invalid hostlist."""
    names: list[str] = []
    for item in _split(text):
        names += _expand_one(item)
        if len(names) > MAX_NODES:
            raise ValueError(f"hostlist {text[:60]!r}: more than {MAX_NODES} nodes")
    return names


def names_in(text: str) -> list[str]:
    """As ``expand``; none for an invalid hostlist."""
    try:
        return expand(text)
    except ValueError:
        return []


def _split(text: str) -> Iterator[str]:
    """The items between commas outside brackets."""
    depth = start = 0
    for i, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError(f"hostlist {text[:60]!r}: brackets do not match")
        if char == "," and not depth:
            yield text[start:i]
            start = i + 1
    if depth:
        raise ValueError(f"hostlist {text[:60]!r}: brackets do not match")
    if text:
        yield text[start:]


def _expand_one(item: str) -> list[str]:
    if not item or _PART.sub("", item) or item.isspace():
        raise ValueError(f"hostlist item {item!r}: not a node name")
    parts: list[list[str]] = []
    size = 1
    for match in _PART.finditer(item):
        part = [match[2]] if match[2] is not None else list(_numbers(match[1]))
        # Counted before anything is built: two brackets of a million numbers each are a few bytes
        # of text.
        size *= len(part)
        if size > MAX_NODES:
            raise ValueError(f"hostlist item {item[:60]!r}: more than {MAX_NODES} nodes")
        parts.append(part)
    return ["".join(words) for words in itertools.product(*parts)]


def _numbers(ranges: str) -> Iterator[str]:
    for piece in ranges.split(","):
        match = _RANGE.fullmatch(piece)
        if not match:
            raise ValueError(f"hostlist range {piece!r}: expected NUMBER or NUMBER-NUMBER")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < MAX_NODES:
            raise ValueError(f"hostlist range {piece!r}: from high to low, or too long")
        for number in range(first, last + 1):
            yield str(number).zfill(len(match[1]))


def compress(names: Iterable[str]) -> str:
    """One hostlist of these names, each once, sorted; ``expand`` returns the same set.

    Rule 6: Slurm's writes are grouped. 10,000 names fit into one argument this way.
    """
    groups: dict[tuple[str, int], set[int]] = {}
    plain: set[str] = set()
    for name in names:
        match = _TAIL.fullmatch(name)
        if match:
            # The width distinguishes 1 from 01; numbers without a leading zero have width 0.
            width = len(match[2]) if match[2].startswith("0") and match[2] != "0" else 0
            groups.setdefault((match[1], width), set()).add(int(match[2]))
        else:
            plain.add(name)
    items = sorted(plain)
    for (prefix, width), numbers in sorted(groups.items()):
        runs = [f"{a:0{width}d}" + (f"-{b:0{width}d}" if b > a else "") for a, b in _runs(numbers)]
        many = len(numbers) > 1
        items.append(f"{prefix}[{','.join(runs)}]" if many else prefix + runs[0])
    return ",".join(items)


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive numbers."""
    for _, run in itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]
