"""Properties of YAML nodes, as the configuration's messages name them."""

from __future__ import annotations

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
"""The names of YAML's tags in messages."""


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
