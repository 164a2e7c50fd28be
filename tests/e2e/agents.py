"""The configuration of a box's agents."""

from __future__ import annotations

import time
from collections.abc import Callable

from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.verdicts import Verdicts

CONFIG = "/etc/holdfast/holdfast.yaml"


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
