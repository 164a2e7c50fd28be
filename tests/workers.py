"""Which tests a worker of pytest-xdist takes together, and in which order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

WITH_BOX = ("tests/chaos", "tests/contract/test_slurm.py", "tests/e2e", "tests/hostile")
OWN_BOX = (
    "tests/chaos/test_campaign.py",
    "tests/e2e/install/test_bridge_page.py",
    "tests/e2e/install/test_page.py",
    "tests/e2e/test_demo.py",
    "tests/terraform/test_pods.py",
    "tests/terraform/test_pods_slurmctld.py",
)
"""They start a box of their own. They come first: a box that is shared must not end for them."""
WITH_API_SERVER = "tests/contract"
"""A folder whose tests share an API server, which starts in some seconds of CPU."""
LONGEST_FIRST = (
    "terraform/test_pods.py",
    "e2e/install/test_page.py",
    "terraform/test_pods_slurmctld.py",
    "chaos/test_campaign.py",
    "e2e/test_demo.py",
    "e2e/install/test_bridge_page.py",
    "e2e/detection/test_detection.py",
    "chaos/test_kills.py",
    "e2e/job/test_whole_loop.py",
    "e2e/job/test_time_limit.py",
    "e2e/job/requeue/test_fence.py",
    "e2e/job",
    "e2e/detection",
    "e2e/node",
    "e2e",
    "hostile",
    "contract",
    "packages",
    "terraform",
    "fuzz",
    "component",
)
"""Folders and files under tests/ in the order in which they are started; tests/unit comes last."""
MOST_WITH_BOX = 4
"""Of more workers the last one begins with the tests that need no box."""


def scope(nodeid: str) -> str:
    """Tests of one scope run in one process, one after the other: those of a file (and of a Slurm release:
    ``tests/e2e/job/test_x.py 26.05``), or of the folder that shares an API server. A box outlives its scope
    while the process goes on with the same release.
    """
    file, _, rest = nodeid.partition("::")
    found = re.search(r"\[([0-9]+\.[0-9]+)", rest)
    if found is None or not file.startswith(WITH_BOX):
        return WITH_API_SERVER if file.startswith(WITH_API_SERVER) else file
    return f"{file} {found[1]}"


def release(scope: str) -> str:
    """The Slurm release of the shared box that a scope needs; empty where it needs none."""
    file, _, release = scope.partition(" ")
    return "" if file in OWN_BOX else release


def rank(
    scope: str, tests: int, has: str, *, boxes_last: bool = False
) -> tuple[bool, bool, int, int]:
    """The scope with the lowest rank is next. ``has``: the release of the worker's last scope with a box.

    What needs a box comes first: it waits most of the time, and ``boxes_last`` says that another worker
    computes meanwhile. A box starts in 10 s of CPU: the worker goes on with its release.
    """
    file = scope.partition(" ")[0]
    names = (file, *map(str, Path(file).parents))
    places = [place for place, name in enumerate(LONGEST_FIRST) if f"tests/{name}" in names]
    return (
        bool(release(scope) or file in OWN_BOX) is boxes_last,
        bool(has and release(scope) and release(scope) != has),
        min(places, default=len(LONGEST_FIRST)),
        -tests,
    )


def scheduler(config: pytest.Config, log: Any) -> Any:
    """pytest-xdist's own ``--dist loadscope`` with these scopes in this order.

    Grouping by marks (loadgroup) does nothing under pytest 9.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByBox(LoadScopeScheduling):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(config, log)
            self._releases: dict[Any, str] = {}

        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            has, queue, workers = self._releases.get(node, ""), self.workqueue, self.nodes
            last = len(workers) > MOST_WITH_BOX and node is workers[-1]
            first = min(queue, key=lambda name: rank(name, len(queue[name]), has, boxes_last=last))
            self._releases[node] = release(first) or has
            queue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    return ByBox()
