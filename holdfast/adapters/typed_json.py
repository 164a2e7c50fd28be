"""JSON back into the frozen dataclasses that it was written from, or one line that says why not.

What a disk gives back may be anything: a value of another kind would only fail much later, in the
middle of a pass. So each is held against its field's type here, and absurd ones (an infinite time, a
number that no counter holds) are refused as well.

Understood: ``int`` (64 bits), ``float`` (finite), ``str``, ``bool``, ``None``, Enums by value,
``datetime`` as epoch seconds, ``X | None``, ``tuple[T, ...]``, ``tuple[A, B]``, ``frozenset[T]``,
``Mapping[str, T]``, ``Mapping[int, T]`` and dataclasses. A key that is missing takes the field's
default, and one that is unknown is left out: another version of Holdfast may have written the file.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import math
import types
import typing
from datetime import datetime, timezone
from enum import Enum
from typing import Any, TypeVar, cast

T = TypeVar("T")

_MOST = 2**64
_LATEST_S = 253_402_300_799
"""The last second of the year 9999."""


def typed(said: Any, kind: type[T], where: str = "") -> T:
    """``said`` as a ``kind``. Raises ValueError, which names the place and the value."""
    return cast("T", _value(said, kind, where))


def _value(said: Any, kind: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return said
    if origin in (typing.Union, types.UnionType):
        return _optional(said, kind, where)
    if origin is not None:
        return _container(said, kind, origin, where)
    if dataclasses.is_dataclass(kind):
        return _fields(said, kind, where)
    if issubclass(kind, Enum):
        return _member(said, kind, where)
    if kind is datetime:
        return _moment(said, where)
    return _plain(said, kind, where)


def _refuse(said: Any, wanted: str, where: str) -> ValueError:
    return ValueError(f"{where or 'it'} should be {wanted}, is {repr(said)[:60]}")


def _optional(said: Any, kind: Any, where: str) -> Any:
    inner = [one for one in typing.get_args(kind) if one is not type(None)]
    if said is None and len(inner) < len(typing.get_args(kind)):
        return None
    for one in inner[:-1]:
        try:
            return _value(said, one, where)
        except ValueError:
            continue
    return _value(said, inner[-1], where)


def _container(said: Any, kind: Any, origin: Any, where: str) -> Any:
    inner = typing.get_args(kind)
    if issubclass(origin, collections.abc.Mapping):
        if not isinstance(said, dict):
            raise _refuse(said, "a table", where)
        return {
            _key(key, inner[0], where): _value(value, inner[1], f"{where}.{key}"[:80])
            for key, value in said.items()
        }
    if not isinstance(said, list):
        raise _refuse(said, "a list", where)
    if origin is tuple and inner[-1] is not Ellipsis:
        if len(said) != len(inner):
            raise _refuse(said, f"a list of {len(inner)}", where)
        return tuple(_value(one, kind_, where) for one, kind_ in zip(said, inner, strict=True))
    return origin(_value(one, inner[0], f"{where}[{at}]") for at, one in enumerate(said))


def _key(said: str, kind: Any, where: str) -> Any:
    if kind is str:
        return _plain(said, str, where)
    try:
        return _plain(int(said), kind, where)
    except ValueError:
        raise _refuse(said, "a number as key", where) from None


def _fields(said: Any, kind: Any, where: str) -> Any:
    if not isinstance(said, dict):
        raise _refuse(said, "a table", where)
    values = {}
    for name, (inner, required) in _schema(kind).items():
        place = f"{where}.{name}" if where else name
        if name in said:
            values[name] = _value(said[name], inner, place)
        elif required:
            raise ValueError(f"{place} is missing")
    return kind(**values)


@functools.cache
def _schema(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Field → (type, has no default)."""
    hints = typing.get_type_hints(kind)
    return {
        field.name: (
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
        if field.init
    }


def _member(said: Any, kind: type[Enum], where: str) -> Enum:
    for member in kind:
        if member.value == said and type(member.value) is type(said):
            return member
    raise _refuse(said, f"one of {kind.__name__}", where)


def _moment(said: Any, where: str) -> datetime:
    seconds = _plain(said, float, where)
    if not 0 <= seconds <= _LATEST_S:
        raise _refuse(said, "a time", where)
    return datetime.fromtimestamp(seconds, timezone.utc)


def _plain(said: Any, kind: Any, where: str) -> Any:
    if kind is float and type(said) is int and abs(said) < _MOST:
        return float(said)
    if type(said) is not kind or not _sane(said):
        raise _refuse(said, f"a value of type {kind.__name__}", where)
    return said


def _sane(said: object) -> bool:
    if isinstance(said, float):
        return math.isfinite(said)
    if isinstance(said, int):
        return abs(said) < _MOST
    if isinstance(said, str):  # half a surrogate pair can be neither printed nor written
        return said.isascii() or not any("\ud800" <= char <= "\udfff" for char in said)
    return True
