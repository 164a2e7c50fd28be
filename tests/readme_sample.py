"""The sample of the demo's output in README.md."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
_HEX = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,}\b|(?<=boot=)[0-9a-f]+|(?<=boot )[0-9a-f]+")
_NUMBER = re.compile(r"[+-]?\d[\d.,:]*")


def sample() -> list[str]:
    """The lines of the README's code block that begins with the head of the table of stages."""
    blocks = re.findall(r"^```text\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if block.lstrip().startswith("after fault"))
    return [line for line in block.splitlines() if line.strip()]


def masked(line: str) -> str:
    """The line without what differs between two runs: numbers, IDs, and the spaces before them."""
    return " ".join(_NUMBER.sub("#", _HEX.sub("#", line)).split())


def same_shape(one: str, two: str) -> bool:
    """Whether two masked lines are equal, as far as neither was shortened."""
    length = min(len(text.rstrip("…")) if text.endswith("…") else 10**6 for text in (one, two))
    return one[:length].rstrip("… ") == two[:length].rstrip("… ")
