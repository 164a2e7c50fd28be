"""The order of node names."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"([0-9]+)")


def natural(name: str) -> list[tuple[int, str]]:
    """Sorts worker-2 before worker-10."""
    # Each second part is a number: what is between two of them may be a digit of another script.
    return [
        (int(part) if index % 2 else -1, part) for index, part in enumerate(_NUMBER.split(name))
    ]
