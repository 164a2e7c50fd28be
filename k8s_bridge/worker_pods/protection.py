"""Keeps the label of worker pods that may be evicted, in a thread beside the bridge's loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.slurm.client import SlurmNode
from k8s_bridge.config import BridgeConfig
from k8s_bridge.feature import RepeatedStep
from k8s_bridge.kube.access import Reviews, Right, require_all
from k8s_bridge.kube.api import KubeError, KubeNotFound, Requests
from k8s_bridge.kube.pages import items
from k8s_bridge.worker_pods.evictable import EVICTABLE, changes, is_evictable

log = LimitedLog(Log("bridge"))

PAUSE_S = 2.0
READ_S = 30.0
"""The longest time between two looks at the labels, where nothing changes in Slurm."""


def require(kube: Reviews, policy: BridgeConfig, where: str) -> None:
    """Raises ``UsageError`` if a right is missing. ``where``: as in ``access.require_all``."""
    namespace = policy.worker_pods_namespace
    rights = [Right(verb, "pods", namespace=namespace) for verb in ("list", "watch", "patch")]
    document = f"worker-pods --set worker_namespace={namespace}"
    require_all(kube, rights if namespace else (), where, document)


class Protection:
    """The worker pods of a namespace. ``is_off``: a kill switch stops all actions."""

    def __init__(self, api: Requests, namespace: str, is_off: Callable[[], bool] = lambda: False):
        self._api, self._is_off = api, is_off
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._nodes: Sequence[SlurmNode] | None = None
        self._done: frozenset[str] | None = None
        self._read_at = float("-inf")
        self._thread = RepeatedStep(
            "worker-pods", lambda: self.step(), PAUSE_S, "worker pods cannot be labelled"
        )

    def see(self, slurm: Sequence[SlurmNode] | None, _: object, /) -> None:
        """The bridge's last look at Slurm's nodes; ``None``: not known, so the labels stay."""
        self._nodes = slurm

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()

    def step(self) -> int:
        """One look. Returns the number of labels written. Raises ``KubeError``."""
        nodes = self._nodes
        if nodes is None or self._is_off():
            return 0
        wanted = frozenset(node.name for node in nodes if is_evictable(node))
        if wanted == self._done and time.monotonic() - self._read_at < READ_S:
            return 0
        labelled = {
            str(item["metadata"]["name"]) for item in items(self._api, self._path, EVICTABLE)
        }
        written = 0
        complete = True
        for name, value in changes(nodes, labelled).items():
            try:
                body = {"metadata": {"labels": {EVICTABLE: value}}}
                self._api.request("PATCH", f"{self._path}/{name}", body=body)
                written += 1
            except KubeNotFound:
                continue  # a node without a pod, or one that is gone
            except KubeError as error:
                complete = False
                log.error("worker pod cannot be labelled", pod=name, why=error)
        if complete:
            self._done, self._read_at = wanted, time.monotonic()
        if written:
            log.info("worker pods labelled", written=written, evictable=len(wanted))
        return written
