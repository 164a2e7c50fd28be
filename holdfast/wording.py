"""Numbers as people say them. Pure."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 node``, ``2 nodes``. ``many``: where an s does not make it."""
    return f"{count} {one if count == 1 else many or one + 's'}"
