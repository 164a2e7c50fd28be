"""Reads the workloads that their owners opted in, and the pods that these control.

A label leads to a pod, and its controllers prove whose it is: a pod belongs to the workload whose UID its
chain of controllers ends with, in the same namespace. A pod with a workload's name in a label is not enough.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.vocabulary import KubeName
from k8s_bridge.kube.api import KubeFailed, KubeNotFound, KubeRefused, Requests
from k8s_bridge.kube.pages import items
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.workloads.kinds import JOB, KINDS, OPT_IN_LABELS, Kind
from k8s_bridge.workloads.objects import (
    Pod,
    Workload,
    controller,
    opted_in,
    pod_of,
    workload_of,
)

log = LimitedLog(Log("bridge"))

NAMES = 40
"""Workloads whose pods are asked for at once: a URL has a limit."""
MISSING_S = 300.0
"""How long after it was missing a kind is asked for again: its definition may be installed meanwhile."""
LABEL_CHARS = 63

Found = tuple[Workload, tuple[Pod, ...]]


class Api(Requests, Protocol):
    """What is asked of the API server. Raises ``KubeError``."""

    def node(self, name: KubeName) -> KubeNode: ...


class Reader:
    """Remembers only which kinds the API server does not know."""

    def __init__(self, api: Api):
        self._api = api
        self._missing: dict[str, float] = {}

    def read(self, namespace: str) -> list[Found]:
        """The active workloads of a namespace with their pods. Raises ``KubeError``."""
        found: list[Found] = []
        workloads = {w.uid: w for kind in KINDS for w in self._workloads(kind, namespace)}
        for kind in KINDS:
            own = [
                w
                for w in workloads.values()
                if w.kind is kind and w.active and w.owner not in workloads
            ]
            found += self._with_pods(kind, namespace, own)
        return found

    def _workloads(self, kind: Kind, namespace: str) -> Iterator[Workload]:
        if time.monotonic() - self._missing.get(kind.name, float("-inf")) < MISSING_S:
            return
        try:
            for label in OPT_IN_LABELS:
                for item in items(self._api, kind.path(namespace), f"{label}=true"):
                    if opted_in((item.get("metadata") or {}).get("labels") or {}):
                        yield workload_of(kind, item)
        except KubeNotFound:
            self._missing[kind.name] = time.monotonic()
        except (KubeFailed, KubeRefused) as error:  # the other kinds can be read
            log.warning("workloads cannot be read", kind=kind.name, namespace=namespace, why=error)

    def _with_pods(
        self, kind: Kind, namespace: str, workloads: Sequence[Workload]
    ) -> Iterable[Found]:
        names = [workload.name for workload in workloads if len(workload.name) <= LABEL_CHARS]
        owners = {workload.uid: workload.uid for workload in workloads}
        pods: dict[str, list[Pod]] = defaultdict(list)
        for begin in range(0, len(names), NAMES):
            selector = f"{kind.pod_label} in ({','.join(names[begin : begin + NAMES])})"
            if kind.has_jobs:
                for item in items(self._api, JOB.path(namespace), selector):
                    if controller(item) in owners:
                        uid = str((item.get("metadata") or {}).get("uid", ""))
                        owners[uid] = owners[controller(item)]
            for item in items(self._api, f"/api/v1/namespaces/{namespace}/pods", selector):
                pod = pod_of(item)
                if pod.owner in owners:
                    pods[owners[pod.owner]].append(pod)
        return [(workload, tuple(pods[workload.uid])) for workload in workloads]

    def gone(self, names: Iterable[KubeName]) -> frozenset[KubeName]:
        """Those of the Nodes that do not exist."""
        return frozenset(name for name in names if self._is_gone(name))

    def _is_gone(self, name: KubeName) -> bool:
        try:
            self._api.node(name)
        except KubeNotFound:
            return True
        return False
