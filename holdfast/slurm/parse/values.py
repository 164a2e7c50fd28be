"""The values that several of Slurm's commands print: states, times, numbers and texts."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from holdfast.vocabulary import NodeState

FIELD = "\x1f"
RECORD = "\x1e"
"""Separators for the output of ``sinfo`` and ``squeue``: control characters that no normal text contains."""

_ALIASES = {
    "INVAL": NodeState.INVALID_REG,
    "MAINT": NodeState.MAINTENANCE,
    "RESV": NodeState.RESERVED,
    "ALLOC": NodeState.ALLOCATED,
    "MIX": NodeState.MIXED,
    "COMP": NodeState.COMPLETING,
}
# Symbols that scontrol and sinfo may append to the base state (man sinfo, NODE STATE CODES).
_SIGNS = {
    "*": NodeState.NOT_RESPONDING,
    "~": NodeState.POWERED_DOWN,
    "#": NodeState.POWERING_UP,
    "!": NodeState.POWER_DOWN,
    "%": NodeState.POWERING_DOWN,
    "$": NodeState.MAINTENANCE,
    "@": NodeState.REBOOT_REQUESTED,
    "^": NodeState.REBOOT_ISSUED,
    "-": NodeState.PLANNED,
}
_YEAR_10000 = 253402300800
_KNOWN = {state.value: state for state in NodeState} | _ALIASES


class ParseError(ValueError):
    """The output does not have the format of the supported Slurm releases."""


def states(words: Iterable[str]) -> tuple[frozenset[NodeState], tuple[str, ...]]:
    """Base state and flags from words like ``IDLE``, ``drain``, ``DOWN*``; and the unknown words."""
    found: set[NodeState] = set()
    unknown: list[str] = []
    for word in words:
        name = word.strip().upper()
        while name and name[-1] in _SIGNS:
            found.add(_SIGNS[name[-1]])
            name = name[:-1]
        if name in _KNOWN:
            found.add(_KNOWN[name])
        elif name:
            unknown.append(name)
    return frozenset(found), tuple(unknown)


@functools.lru_cache(maxsize=1024)
def states_in(text: str) -> tuple[frozenset[NodeState], tuple[str, ...]]:
    """Of a text like ``IDLE+CLOUD``. Many nodes have the same."""
    return states(text.split("+"))


def epoch(seconds: Any) -> datetime | None:
    """A JSON or text time as UTC; ``None`` for unset, infinite, zero or a word."""
    found = number(seconds)
    if found is None or not 0 < found < _YEAR_10000:
        return None
    return datetime.fromtimestamp(found, timezone.utc)


def number(value: Any) -> int | None:
    """A number in JSON, as an object or plain; ``None`` for unset, infinite or a word."""
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def text(value: Any) -> str:
    """A text in JSON; empty for anything else."""
    return value if isinstance(value, str) else ""


def words(value: Any) -> list[str]:
    """The texts of a list in JSON, or the one text."""
    found = value if isinstance(value, list) else [value]
    return [word for word in found if isinstance(word, str)]
