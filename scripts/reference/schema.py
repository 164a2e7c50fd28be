"""The fields of a configuration dataclass: meaning, unit, default, and the values it refuses.

Meanings are the docstrings after the fields. Ranges are not copied from anywhere: each field is set
to values that no configuration should have, and the dataclass's error message states its range.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

UNITS: Mapping[str, str] = {
    "_mb_s": "MB/s",
    "_gb_s": "GB/s",
    "_per_s": "per second",
    "_per_min": "per minute",
    "_per_h": "per hour",
    "_s": "seconds",
    "_mib": "MiB",
    "_gib": "GiB",
    "_tflops": "TFLOP/s",
    "_c": "°C",
    "_bytes": "bytes",
    "_nodes": "nodes",
    "_polls": "polls",
    "_passes": "passes",
    "_returns": "returns",
    "_after": "passes",
    "_attempts": "attempts",
    "_width": "lanes",
    "_gpus": "GPUs",
    "_share": "share of 1",
    "_changes": "changes",
}
"""The end of a field's name, and its unit. The first match counts, so longer ends come first."""

_OFFERS: Mapping[type, tuple[Any, ...]] = {
    int: (-(10**9), 10**9, 0, 1),
    float: (-1e9, 1e9, 0.0, 1.0),
    str: ("", "relative"),
    Path: (Path("relative"),),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of the configuration, as text for a table."""

    path: str
    kind: str
    unit: str
    default: str
    allowed: str
    meaning: str


def keys_of(schema: Any, path: str) -> Iterator[Key]:
    """Every key below ``path``, in the order of the fields, including nested dataclasses."""
    hints = get_type_hints(schema)
    meanings = _docstrings(schema)
    for field in dataclasses.fields(schema):
        hint, key = hints[field.name], f"{path}.{field.name}" if path else field.name
        if dataclasses.is_dataclass(hint):
            yield from keys_of(hint, key)
            continue
        default = _default(field)
        item = get_args(hint)[0] if get_origin(hint) is tuple else None
        yield Key(
            path=key,
            kind=_kind(hint),
            unit=_unit(field.name, hint),
            default=plain(default),
            allowed=_allowed(schema, field.name, hint),
            meaning=meanings.get(field.name) or _enum_meaning(hint),
        )
        if dataclasses.is_dataclass(item):
            yield from keys_of(item, f"{key}[]")


def plain(value: Any) -> str:
    """The value in YAML's flow style."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (tuple, frozenset)):
        return "[" + ", ".join(sorted(map(plain, value))) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {plain(item)}" for name, item in value.items()) + "}"
    return str(value) or '""'


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _kind(hint: Any) -> str:
    if (isinstance(hint, type) and issubclass(hint, Enum)) or get_origin(hint) is Literal:
        return "word"
    if dataclasses.is_dataclass(hint):
        return "sections"
    if get_origin(hint) in (tuple, frozenset):
        return f"list of {_kind(get_args(hint)[0])}"
    if isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Mapping):
        return f"mapping to {_kind(get_args(hint)[1])}"
    if type(None) in get_args(hint):
        return f"{_kind(_given(hint))} or null"
    words = {int: "whole number", float: "number", bool: "true or false", Path: "path", str: "text"}
    return words[hint]


def _given(hint: Any) -> Any:
    """``T`` of ``T | None``, else the type itself."""
    inner = [member for member in get_args(hint) if member is not type(None)]
    return inner[0] if type(None) in get_args(hint) else hint


def _unit(name: str, hint: Any) -> str:
    if _given(hint) not in (int, float):
        return ""
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")


def _allowed(schema: Any, name: str, hint: Any) -> str:
    """The values of an enum, else the error messages for values that the dataclass refuses."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        words = ", ".join(str(member.value) for member in hint)
        refusals = ((member.value, _refusal(schema, name, member)) for member in hint)
        # "is 'rest', so rest_url must …"
        refused = [f"`{word}`: {text.rpartition(', so ')[2]}" for word, text in refusals if text]
        return "; ".join([words, *refused])
    offers = _OFFERS.get(_given(hint), ())
    if get_origin(hint) in (tuple, frozenset):
        inner = get_args(hint)[0]
        if get_origin(inner) is Literal:
            return ", ".join(get_args(inner))
        offers = tuple(get_origin(hint)([item]) for item in _OFFERS.get(inner, ()))
    answers = (_refusal(schema, name, value) for value in offers)
    return "; ".join(dict.fromkeys(filter(None, answers)))


def _refusal(schema: Any, name: str, value: Any) -> str:
    """Why the dataclass refuses the value, without the value itself; empty if it accepts it."""
    try:
        schema(**{name: value})
    except ValueError as error:
        text = str(error)
        if not text.startswith(name):
            return ""
        return text.removeprefix(f"{name} ").rpartition(", got")[0] or text.removeprefix(f"{name} ")
    return ""


def _enum_meaning(hint: Any) -> str:
    """The docstrings of an enum and of its members."""
    if not (isinstance(hint, type) and issubclass(hint, Enum)):
        return ""
    words = (f"`{hint[name].value}`: {text}" for name, text in _docstrings(hint).items())
    return " ".join((" ".join((inspect.getdoc(hint) or "").split()), *words))


def _docstrings(schema: Any) -> dict[str, str]:
    """Each field with the docstring after it."""
    body = _class_body(schema)
    texts: dict[str, str] = {}
    for field, after in itertools.pairwise(body):
        name = _assigned(field)
        if name and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            texts[name] = " ".join(str(after.value.value).split())
    return texts


def _assigned(statement: ast.stmt) -> str:
    """The name that a statement assigns to; empty for any other statement."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return ""


def _class_body(schema: Any) -> list[ast.stmt]:
    node = ast.parse(textwrap.dedent(inspect.getsource(schema))).body[0]
    return node.body if isinstance(node, ast.ClassDef) else []
