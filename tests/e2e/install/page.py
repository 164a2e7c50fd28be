"""A page of docs/howto as a person follows it: each of its shell blocks is run, or there is a reason."""

from __future__ import annotations

from collections.abc import Mapping

from fresh_machine.page import shell_blocks
from testbed.paths import TREE


class Page:
    """``name``: of a file in docs/howto. ``not_run``: begin of a block → why no test runs it."""

    def __init__(self, name: str, not_run: Mapping[str, str]) -> None:
        self.text = (TREE / "docs/howto" / name).read_text()
        self._blocks = list(shell_blocks(self.text))
        self._left = set(self._blocks) - {self._find(first) for first in not_run}

    def block(self, first: str) -> str:
        """The block that begins with ``first``."""
        found = self._find(first)
        self._left.discard(found)
        return found

    def inline(self, command: str) -> str:
        """A command in the text, of which the page has exactly these words."""
        assert f"`{command}`" in " ".join(self.text.split()), command
        return command

    def never_run(self) -> list[str]:
        """The blocks that neither were run nor have a reason."""
        return sorted(self._left)

    def _find(self, first: str) -> str:
        (found,) = [block for block in self._blocks if block.startswith(first)]
        return found


def without(block: str, begin: str) -> str:
    """The block without its one line that begins with ``begin``."""
    lines = block.splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(begin)]
    assert len(kept) == len(lines) - 1, begin
    return "".join(kept)


def changed(block: str, before: str, after: str) -> str:
    """The block with the one value that the page tells a person to change."""
    assert block.count(before) == 1, before
    return block.replace(before, after)
