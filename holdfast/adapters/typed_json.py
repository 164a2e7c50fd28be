"""Convert JSON to the frozen dataclasses that it was written from, or raise one line with the cause.

A file on disk may contain anything, and a value of a wrong type would only fail much later. So each value
is checked against its field's type, and impossible ones (an infinite time, a number beyond any counter) are
rejected too.

Supported types: ``int`` (64 bits), ``float`` (finite), ``str``, ``bool``, ``None``, Enums by value,
``datetime`` as epoch seconds, ``X | None``, ``tuple[T, ...]``, ``tuple[A, B]``, ``frozenset[T]``,
``Mapping[str, T]``, ``Mapping[int, T]`` and dataclasses. A missing key gets the field's default,
and an unknown key is ignored: another version of Holdfast may have written the file.
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


def typed(value: Any, kind: type[T], where: str = "") -> T:
    """``value`` as a ``kind``. Raises ValueError, which names the place and the value."""
    return cast("T", _value(value, kind, where))


def _value(value: Any, kind: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _optional(value, kind, where)
    if origin is not None:
        return _container(value, kind, origin, where)
    if dataclasses.is_dataclass(kind):
        return _fields(value, kind, where)
    if issubclass(kind, Enum):
        return _member(value, kind, where)
    if kind is datetime:
        return _moment(value, where)
    return _plain(value, kind, where)


def _refuse(value: Any, wanted: str, where: str) -> ValueError:
    return ValueError(f"{where or 'it'} should be {wanted}, is {repr(value)[:60]}")


def _optional(value: Any, kind: Any, where: str) -> Any:
    inner = [part for part in typing.get_args(kind) if part is not type(None)]
    if value is None and len(inner) < len(typing.get_args(kind)):
        return None
    for part in inner[:-1]:
        try:
            return _value(value, part, where)
        except ValueError:
            continue
    return _value(value, inner[-1], where)


def _container(value: Any, kind: Any, origin: Any, where: str) -> Any:
    inner = typing.get_args(kind)
    if issubclass(origin, collections.abc.Mapping):
        if not isinstance(value, dict):
            raise _refuse(value, "a table", where)
        return {
            _key(key, inner[0], where): _value(item, inner[1], f"{where}.{key}"[:80])
            for key, item in value.items()
        }
    if not isinstance(value, list):
        raise _refuse(value, "a list", where)
    if origin is tuple and inner[-1] is not Ellipsis:
        if len(value) != len(inner):
            raise _refuse(value, f"a list of {len(inner)}", where)
        return tuple(_value(item, part, where) for item, part in zip(value, inner, strict=True))
    return origin(_value(item, inner[0], f"{where}[{at}]") for at, item in enumerate(value))


def _key(value: str, kind: Any, where: str) -> Any:
    if kind is str:
        return _plain(value, str, where)
    try:
        return _plain(int(value), kind, where)
    except ValueError:
        raise _refuse(value, "a number as key", where) from None


def _fields(value: Any, kind: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _refuse(value, "a table", where)
    values = {}
    for name, (inner, required) in _schema(kind).items():
        place = f"{where}.{name}" if where else name
        if name in value:
            values[name] = _value(value[name], inner, place)
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


def _member(value: Any, kind: type[Enum], where: str) -> Enum:
    for member in kind:
        if member.value == value and type(member.value) is type(value):
            return member
    raise _refuse(value, f"one of {kind.__name__}", where)


def _moment(value: Any, where: str) -> datetime:
    seconds = _plain(value, float, where)
    if not 0 <= seconds <= _LATEST_S:
        raise _refuse(value, "a time", where)
    return datetime.fromtimestamp(seconds, timezone.utc)


def _plain(value: Any, kind: Any, where: str) -> Any:
    if kind is float and type(value) is int and abs(value) < _MOST:
        return float(value)
    if type(value) is not kind or not _sane(value):
        raise _refuse(value, f"a value of type {kind.__name__}", where)
    return value


def _sane(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < _MOST
    if isinstance(value, str):  # half of a surrogate pair can be neither printed nor written
        return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
    return True
