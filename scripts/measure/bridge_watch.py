"""When each Node showed what the bridge writes, seen by a watch of its own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable

import urllib3

from measure.many_nodes import ManyKubeNodes, number_of

_LABEL = "holdfast.dev/slurm-state"
_CONDITION = "HoldfastSlurmDrained"


class ToldTimes:
    """The monotonic time at which each Node first showed the drain of its Slurm node.

    The watch selects the label's value for drained nodes, which the bridge writes in the same request as the
    condition, so the watch costs the API server nothing for all other Nodes.
    """

    def __init__(self, kube: ManyKubeNodes):
        self._kube = kube
        self._at: dict[int, float] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="told", daemon=True).start()

    def of(self, numbers: Iterable[int], limit_s: float) -> list[float]:
        """When each of these showed it. Raises ``TimeoutError`` if one does not within ``limit_s``."""
        wanted = list(numbers)
        with self._changed:
            if not self._changed.wait_for(lambda: self._at.keys() >= set(wanted), limit_s):
                missing = set(wanted) - self._at.keys()
                raise TimeoutError(f"{len(missing)} Nodes show no drain after {limit_s:g} s")
            return [self._at[number] for number in wanted]

    def _run(self) -> None:
        while True:
            try:
                self._follow()
            except (urllib3.exceptions.HTTPError, OSError):
                time.sleep(0.2)

    def _follow(self) -> None:
        path = f"/api/v1/nodes?watch=1&labelSelector={_LABEL}%3Ddrained"
        for line in self._kube.lines(path):
            at, node = time.monotonic(), json.loads(line)["object"]
            rows = (node.get("status") or {}).get("conditions") or ()
            if any(row["type"] == _CONDITION and row["status"] == "True" for row in rows):
                with self._changed:
                    self._at.setdefault(number_of(node["metadata"]["name"]), at)
                    self._changed.notify_all()
