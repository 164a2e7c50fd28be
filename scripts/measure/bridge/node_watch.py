"""When each Node showed what the bridge writes, seen by a watch of its own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable

import urllib3

from measure.bridge.many_nodes import ManyKubeNodes, number_of

_DRAINED = b'"type":"HoldfastSlurmDrained","status":"True"'
_TAINTED = b'"key":"holdfast.dev/drained"'
"""As the API server writes them; only lines with one of them are decoded."""
_ERROR, _VERSION = b'{"type":"ERROR"', b'"resourceVersion":"'


class ShownTimes:
    """The monotonic time at which each Node first showed the drain of its Slurm node, and the bridge's taint,
    which is written together with its cordon.

    Its watch of all Nodes runs beside the bridge's own.
    """

    def __init__(self, kube: ManyKubeNodes):
        self._kube = kube
        self._reported: dict[int, float] = {}
        self._isolated: dict[int, float] = {}
        self._changed = threading.Condition()
        self._since = "0"
        threading.Thread(target=self._run, name="shown", daemon=True).start()

    def of(self, numbers: Iterable[int], limit_s: float) -> list[float]:
        """When each of these showed it. Raises ``TimeoutError`` if one does not within ``limit_s``."""
        return self._found(self._reported, "drain", numbers, limit_s)

    def isolated(self, numbers: Iterable[int], limit_s: float) -> list[float]:
        """As ``of``, for the taint."""
        return self._found(self._isolated, "taint", numbers, limit_s)

    def _found(
        self, at: dict[int, float], what: str, numbers: Iterable[int], limit_s: float
    ) -> list[float]:
        wanted = list(numbers)
        with self._changed:
            if not self._changed.wait_for(lambda: at.keys() >= set(wanted), limit_s):
                missing = set(wanted) - at.keys()
                raise TimeoutError(f"{len(missing)} Nodes show no {what} after {limit_s:g} s")
            return [at[number] for number in wanted]

    def _run(self) -> None:
        self._since = self._kube.version()
        while True:
            try:
                self._follow()
            except (urllib3.exceptions.HTTPError, OSError):
                pass
            time.sleep(0.2)

    def _follow(self) -> None:
        """The API server ends a watch that is read too slowly: the next one continues from there. To begin with
        all Nodes again would show minutes too late what came meanwhile.
        """
        for line in self._kube.lines(f"/api/v1/nodes?watch=1&resourceVersion={self._since}"):
            if line.startswith(_ERROR):
                self._since = "0"  # expired: from all Nodes as they are
                return
            self._since = line.partition(_VERSION)[2].partition(b'"')[0].decode() or self._since
            shown = [
                rows
                for word, rows in ((_DRAINED, self._reported), (_TAINTED, self._isolated))
                if word in line
            ]
            if shown:
                at, node = time.monotonic(), json.loads(line)["object"]
                number = number_of(node["metadata"]["name"])
                with self._changed:
                    for rows in shown:
                        rows.setdefault(number, at)
                    self._changed.notify_all()
