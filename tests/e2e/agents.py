"""The agents of a box: their configuration, and the verdicts that they write."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from demonstration.observe import VERDICT, verdict_in
from testbed.box import Box
from testbed.namespaces import enter

from tests.e2e import cluster

CONFIG = "/etc/holdfast/holdfast.yaml"


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


def configure(box: Box, change: Callable[[str], str]) -> str:
    """Replace the box's configuration, as an editor does. Returns the old one.

    Waits until every agent has restarted with it.
    """
    path = box.path(CONFIG)
    before = path.read_text()
    begin = time.time()
    new = path.with_suffix(".new")
    new.write_text(change(before))
    new.replace(path)
    for node in box.nodes:
        verdicts = Verdicts(box, node.name)
        cluster.wait_for(
            lambda: verdicts.read().get("at", 0.0) > begin + 2.0,  # noqa: B023
            f"{node.name}'s agent with another configuration",
            30,
        )
    return before
