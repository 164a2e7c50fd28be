"""Convert the node tree of a YAML file to typed values. Used only by ``load``."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
)

from holdfast.config.dataclass_fields import built, has_default, hints_of, is_section, subject_of
from holdfast.config.yaml_nodes import (
    KINDS,
    as_float,
    is_null,
    join,
    kind_of,
    line_of,
    tag_of,
)
from holdfast.text.wording import did_you_mean, suggest

if TYPE_CHECKING:
    from yaml import Node

_MISSING = object()


class Problem(NamedTuple):
    """One problem of the file. ``key`` is the dotted path, empty for the file itself."""

    line: int
    key: str
    text: str


class _Bad(Exception):
    """This value cannot be used; its problem is already reported."""


class Converter:
    """Converts nodes to values and reports each problem; a value with a problem becomes ``None``."""

    def __init__(self, report: Callable[[Problem], None]):
        self._report = report
        self._reported = 0

    def value(self, node: Node, schema: Any, key: str) -> Any:
        """The node as ``schema``, or ``None`` after a problem."""
        try:
            return self._convert(node, schema, key)
        except _Bad:
            return None

    def default(self, schema: Any, key: str) -> Any:
        """The value of a section that is not in the file."""
        if isinstance(schema, Mapping):
            return {name: self.default(inner, f"{key}.{name}") for name, inner in schema.items()}
        origin = get_origin(schema) or schema
        if dataclasses.is_dataclass(origin):
            return self.fields({}, schema, key, 1)
        return origin() if origin in (str, dict, tuple, frozenset, bool, int, float) else None

    def keys(
        self, node: Node, key: str, known: Mapping[str, Any], what: str = "key"
    ) -> dict[str, Node]:
        """The mapping's values by key. Reports unknown keys, duplicate keys, and a node that is
        not a mapping.
        """
        try:
            found = self._mapping(node, key)
        except _Bad:
            return {}
        for name in [name for name in found if name not in known]:
            line, path = line_of(found[name]), join(key, name)
            self._problem(line, path, f"unknown {what}{suggest(name, known)}")
            del found[name]
        return found

    def fields(self, nodes: Mapping[str, Node], schema: Any, key: str, line: int) -> Any:
        """The dataclass ``schema`` built from ``nodes``; ``None`` after a problem."""
        cls = get_origin(schema) or schema
        hints = hints_of(schema)
        values: dict[str, Any] = {}
        bad: set[str] = set()
        for field in dataclasses.fields(cls):
            path = join(key, field.name)
            value = self._field(nodes.get(field.name), hints[field.name], field, path, line)
            if isinstance(value, _Bad):
                bad.add(field.name)
            elif value is not _MISSING:
                values[field.name] = value
        # Nothing to build it from: its other values are checked already, so all problems are
        # reported at once.
        if any(not has_default(field) for field in dataclasses.fields(cls) if field.name in bad):
            return None
        return built(cls, values, bad, lambda text: self._refused(text, nodes, key, line))

    def _field(
        self, node: Node | None, hint: Any, field: dataclasses.Field[Any], key: str, line: int
    ) -> Any:
        """A value, ``_MISSING`` (the dataclass has a default) or ``_Bad``."""
        default = has_default(field)
        # An empty section means its defaults; an empty value is a mistake.
        empty = node is not None and is_null(node) and default and is_section(hint)
        if node is not None and not empty:
            try:
                return self._convert(node, hint, key)
            except _Bad as bad:
                return bad
        if default:
            return _MISSING
        # A section that is missing as a whole: its own fields may all have defaults.
        if dataclasses.is_dataclass(get_origin(hint) or hint):
            made = self.fields({}, hint, key, line)
            return _Bad() if made is None else made
        self._problem(line, key, "missing; it has no default")
        return _Bad()

    def _refused(self, text: str, nodes: Mapping[str, Node], key: str, line: int) -> None:
        name, rest = subject_of(text)
        if name in nodes and rest:
            self._problem(line_of(nodes[name]), join(key, name), rest)
        else:
            self._problem(line, key, text)

    def _convert(self, node: Node, schema: Any, key: str) -> Any:
        origin = get_origin(schema)
        if schema is Any:
            return self._plain(node, key)
        if isinstance(schema, Mapping):
            return self._table(node, schema, key)
        if origin in (Union, types.UnionType):
            return self._optional(node, schema, key)
        if origin is Literal:
            return self._choice(node, {str(choice): choice for choice in get_args(schema)}, key)
        if isinstance(schema, type) and issubclass(schema, Enum):
            return self._choice(node, {str(member.value): member for member in schema}, key)
        if dataclasses.is_dataclass(origin or schema):
            return self._dataclass(node, schema, key)
        if origin is not None:
            return self._container(node, origin, get_args(schema), key)
        return self._scalar(node, schema, key)

    def _optional(self, node: Node, schema: Any, key: str) -> Any:
        inner = [kind for kind in get_args(schema) if kind is not type(None)]
        if len(inner) != 1:
            raise TypeError(f"{key}: a schema may use Optional[T], no other union, got {schema}")
        return None if is_null(node) else self._convert(node, inner[0], key)

    def _table(self, node: Node, table: Mapping[str, Any], key: str) -> Any:
        if is_null(node):
            return self.default(table, key)
        before = self._reported
        found = self.keys(node, key, table)
        values = {
            name: self.value(found[name], inner, join(key, name))
            if name in found and not is_null(found[name])
            else self.default(inner, join(key, name))
            for name, inner in table.items()
        }
        return self._unless_bad(before, values)

    def _dataclass(self, node: Node, schema: Any, key: str) -> Any:
        names = dict.fromkeys(
            field.name for field in dataclasses.fields(get_origin(schema) or schema)
        )
        nodes: dict[str, Node] = {}
        if not is_null(node):
            self._expect(node, "map", key)
            nodes = self.keys(node, key, names)
        made = self.fields(nodes, schema, key, line_of(node))
        if made is None:
            raise _Bad
        return made

    def _container(self, node: Node, origin: Any, args: tuple[Any, ...], key: str) -> Any:
        before = self._reported
        if issubclass(origin, Mapping):
            found = self._mapping(node, key)
            values = {
                name: self.value(child, args[1], join(key, name)) for name, child in found.items()
            }
            return self._unless_bad(before, values)
        self._expect(node, "seq", key)
        items = [self.value(child, args[0], f"{key}[{i}]") for i, child in enumerate(node.value)]
        return self._unless_bad(before, origin(items))

    def _unless_bad(self, before: int, value: Any) -> Any:
        """``value``, unless a problem in it was reported since: no partial container is returned."""
        if self._reported != before:
            raise _Bad
        return value

    def _mapping(self, node: Node, key: str) -> dict[str, Node]:
        self._expect(node, "map", key)
        found: dict[str, Node] = {}
        for name_node, child in node.value:
            name = str(name_node.value)
            if tag_of(name_node) == "merge":
                self._problem(
                    line_of(name_node), key, "merge keys (<<) are not supported; write the keys out"
                )
            elif name in found:
                self._problem(
                    line_of(name_node),
                    join(key, name),
                    f"given twice, first in line {line_of(found[name])}",
                )
            else:
                found[name] = child
        return found

    def _choice(self, node: Node, choices: Mapping[str, Any], key: str) -> Any:
        known = ", ".join(choices)
        if is_null(node):
            self._bad(
                node, key, f"expected one of {known}, got nothing; remove the key for its default"
            )
        # The text of the node, not its YAML value: YAML 1.1 reads a bare ``off`` as False.
        text = node.value if isinstance(node.value, str) else kind_of(node)
        if text not in choices:
            self._bad(node, key, f"{text!r} is not one of {known}{did_you_mean(text, choices)}")
        return choices[text]

    def _scalar(self, node: Node, schema: Any, key: str) -> Any:
        tag = tag_of(node)
        if schema is float and tag == "str" and as_float(node.value) is not None:
            return self._finite(node, as_float(node.value), key)  # YAML 1.1 reads 1e-3 as text
        if schema is float and tag in ("int", "float"):
            return self._finite(node, float(self._plain(node, key)), key)
        want = {str: "str", Path: "str", int: "int", bool: "bool", float: "float"}.get(schema)
        if want is None:
            raise TypeError(f"{key}: the loader does not support the type {schema!r}")
        self._expect(node, want, key)
        return schema(self._plain(node, key))

    def _finite(self, node: Node, number: float | None, key: str) -> float:
        if number is None or not math.isfinite(number):
            self._bad(node, key, f"expected a finite number, got {node.value}")
        return number or 0.0

    def _plain(self, node: Node, key: str) -> Any:
        import yaml  # noqa: PLC0415 - see load.py, which has imported it

        try:
            return yaml.constructor.SafeConstructor().construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError, TypeError) as error:
            self._bad(node, key, f"not a plain value: {getattr(error, 'problem', None) or error}")

    def _expect(self, node: Node, want: str, key: str) -> None:
        if tag_of(node) != want:
            got = kind_of(node)
            if isinstance(node.value, str) and node.value and not is_null(node):
                got += f" {node.value!r}"
            remedy = ""
            if is_null(node):
                remedy = "; remove the key for its default"
            elif want == "str" and isinstance(node.value, str) and node.value:
                remedy = "; put it in quotes"
            self._bad(node, key, f"expected {KINDS[want]}, got {got}{remedy}")

    def _bad(self, node: Node, key: str, text: str) -> None:
        self._problem(line_of(node), key, text)
        raise _Bad

    def _problem(self, line: int, key: str, text: str) -> None:
        self._reported += 1
        self._report(Problem(line, key, text))
