"""Checks of single values of the configuration."""

from __future__ import annotations

from typing import Any


def within(values: Any, /, **bounds: tuple[float, float]) -> None:
    """For ``__post_init__``: each named field has to be within its bounds, inclusive.

    Raises ValueError, whose text begins with the field's name: ``config.load`` finds the line by it.
    """
    for name, (low, high) in bounds.items():
        value = getattr(values, name)
        if not low <= value <= high:
            raise ValueError(
                f"{name} must be between {_shown(low)} and {_shown(high)}, got {_shown(value)}"
            )


def is_ipv4(text: str) -> bool:
    """Whether ``text`` is an IPv4 address: four numbers from 0 to 255."""
    parts = text.split(".")
    return len(parts) == 4 and all(
        part.isascii() and part.isdigit() and len(part) <= 3 and int(part) <= 255 for part in parts
    )


def _shown(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.10g}"
