"""Reads shell commands from a page of docs/."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator


def shell_block(page: str, heading: str) -> str:
    """The first ```sh block below ``heading`` (a whole line). Raises ``ValueError`` when there is none."""
    _, found, below = page.partition(f"\n{heading}\n")
    block = re.search(r"^```sh\n(.*?)^```$", below.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    if not found or not block:
        raise ValueError(f"no shell block below '{heading}'")
    return block[1]


def shell_blocks(page: str) -> Iterator[str]:
    """Every ```sh block, those of lists too."""
    for block in re.findall(r"^ *```sh\n(.*?)^ *```$", page, re.MULTILINE | re.DOTALL):
        yield textwrap.dedent(block)
