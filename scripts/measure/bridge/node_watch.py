"""When each Node showed what the bridge writes, seen by a watch of its own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable

import urllib3

from measure.bridge.many_nodes import ManyKubeNodes, number_of

_DRAINED = b'"type":"HoldfastSlurmDrained","status":"True"'
"""As the API server writes it; only such lines are decoded."""


class ShownTimes:
    """The monotonic time at which each Node first showed the drain of its Slurm node.

    Its watch of all Nodes runs beside the bridge's own.
    """

    def __init__(self, kube: ManyKubeNodes):
        self._kube = kube
        self._at: dict[int, float] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="shown", daemon=True).start()

    def of(self, numbers: Iterable[int], limit_s: float) -> list[float]:
        """When each of these showed it. Raises ``TimeoutError`` if one does not within ``limit_s``."""
        wanted = list(numbers)
        with self._changed:
            if not self._changed.wait_for(lambda: self._at.keys() >= set(wanted), limit_s):
                missing = set(wanted) - self._at.keys()
                raise TimeoutError(f"{len(missing)} Nodes show no drain after {limit_s:g} s")
            return [self._at[number] for number in wanted]

    def _run(self) -> None:
        since = self._kube.version()
        while True:
            try:
                self._follow(since)
            except (urllib3.exceptions.HTTPError, OSError):
                time.sleep(0.2)
            since = "0"  # from all Nodes as they are: what was missed is late, not lost

    def _follow(self, since: str) -> None:
        for line in self._kube.lines(f"/api/v1/nodes?watch=1&resourceVersion={since}"):
            if _DRAINED in line:
                at, node = time.monotonic(), json.loads(line)["object"]
                with self._changed:
                    self._at.setdefault(number_of(node["metadata"]["name"]), at)
                    self._changed.notify_all()
