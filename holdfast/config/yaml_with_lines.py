"""A YAML document of another program, such as a kubeconfig: its values with their line numbers.

Values are looked up when they are asked for, so a document whose aliases multiply costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.config.yaml_nodes import is_null, kind_of, line_of, tag_of

if TYPE_CHECKING:
    from yaml import Node


class LocatedValue:
    """One value of the document."""

    def __init__(self, node: Node):
        self._node = node

    @property
    def line(self) -> int:
        """The line of the file, from 1."""
        return line_of(self._node)

    @property
    def kind(self) -> str:
        """What it is, in one or two words: text, mapping, list, nothing …"""
        return kind_of(self._node)

    @property
    def text(self) -> str | None:
        """The value as it is written; None: it is a mapping, a list or nothing."""
        if is_null(self._node) or tag_of(self._node) in ("map", "seq"):
            return None
        return str(self._node.value)

    def get(self, key: str) -> LocatedValue | None:
        """The value of that key; None: there is none, or this is no mapping. The last one counts."""
        if tag_of(self._node) != "map":
            return None
        found = [value for name, value in self._node.value if name.value == key]
        return LocatedValue(found[-1]) if found and not is_null(found[-1]) else None

    def items(self) -> Iterator[LocatedValue]:
        """The values of a list; none of anything else."""
        if tag_of(self._node) == "seq":
            for node in self._node.value:
                yield LocatedValue(node)
