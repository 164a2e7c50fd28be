"""What a YAML node is, in the words of the configuration's messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaml import Node

KINDS = {
    "str": "text",
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "null": "nothing",
    "map": "mapping",
    "seq": "list",
    "timestamp": "date",
}
"""What YAML's own tags are called in a message."""


def as_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def is_null(node: Node) -> bool:
    return tag_of(node) == "null"


def tag_of(node: Node) -> str:
    return str(node.tag).rsplit(":", 1)[-1]


def kind_of(node: Node) -> str:
    return KINDS.get(tag_of(node), tag_of(node))


def line_of(node: Node) -> int:
    return int(node.start_mark.line) + 1


def join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a complaint about a word that is nearly one of these; empty where it is none."""
    names = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), names, n=1, cutoff=0.6)
    return f"; did you mean {names[close[0]]!r}?" if close else ""


def suggest(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    return did_you_mean(word, names) or f"; known are {', '.join(names)}"
