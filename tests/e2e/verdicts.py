"""The verdicts of a box's agents, read from outside."""

from __future__ import annotations

from typing import Any

from demonstration.observe import VERDICT, verdict_in
from testbed.box import Box
from testbed.namespaces import enter


class Verdicts:
    """A node's verdict file, read from outside."""

    def __init__(self, box: Box, node: str) -> None:
        self._box, self.node = box, node
        self._pid: int | None = None

    def read(self) -> dict[str, Any]:
        """The newest verdict; empty while there is none."""
        for _ in range(2):
            if self._pid is None:
                self._pid = self._box.node_pid(self.node)
            found = verdict_in(enter.seen_by(self._pid, VERDICT)) if self._pid else None
            if found is not None:
                return found
            self._pid = None  # the node was power cycled
        return {}

    def findings(self) -> list[dict[str, Any]]:
        return list(self.read().get("findings") or [])

    def codes(self) -> set[str]:
        return {finding["code"] for finding in self.findings()}
