"""What the loader reads from a dataclass: types, defaults, and the values that it rejects."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args, get_origin, get_type_hints


def built(
    cls: Any, values: Mapping[str, Any], bad: set[str], refused: Callable[[str], None]
) -> Any:
    """``cls(**values)``; ``None`` where any field is invalid. ``bad``: fields that were reported before.

    A dataclass rejects its fields one at a time. Each rejected field is reported and gets its default,
    like those in ``bad``, until nothing more is rejected. A rejection that names a bad field is about a
    default that nobody wrote, so it is not reported.
    """
    left, bad = dict(values), set(bad)
    while True:
        try:
            made = cls(**left)
        except ValueError as error:
            text = str(error)
            if not bad & set(re.findall(r"\w+", text.partition(", got ")[0])):
                refused(text)
            name, _ = subject_of(text)
            if name not in left:
                return None
            bad.add(name)
            del left[name]
        else:
            return None if bad else made


def subject_of(refusal: str) -> tuple[str, str]:
    """(field, the rest of the message); the second is empty where it is about several fields."""
    first, _, rest = refusal.partition(" ")
    return first.rstrip(":"), rest if rest.startswith(("must ", "is ", "needs ")) else ""


def has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def is_section(hint: Any) -> bool:
    """Whether the type has parts: a dataclass, a mapping, a list."""
    origin = get_origin(hint) or hint
    if not isinstance(origin, type):
        return False
    return dataclasses.is_dataclass(origin) or issubclass(origin, (Mapping, tuple, list, frozenset))


def hints_of(schema: Any) -> dict[str, Any]:
    """Field types of a dataclass, with the type variables of ``Check[Limits]`` filled in."""
    cls = get_origin(schema) or schema
    filled = dict(zip(getattr(cls, "__parameters__", ()), get_args(schema), strict=False))
    hints = get_type_hints(cls)
    return {
        name: filled.get(hint, hint) if isinstance(hint, TypeVar) else hint
        for name, hint in hints.items()
    }
