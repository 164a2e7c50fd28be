"""The worker pods that Kubernetes is going to end, kept current by one LIST and one WATCH in a thread.

Pods have no heartbeats, so ten thousand of them cost a list at the start, and an event for each change. Only
those that end are kept. While the API server is silent, what was known stays: a pod that ends does not recover.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from holdfast.adapters.log import Log
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.feature import RepeatedStep
from k8s_bridge.kube.api import KubeGone, Watches
from k8s_bridge.kube.pages import pages
from k8s_bridge.model.disruption import CONDITION, Disruption, disruption_of
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.rules.settings import effective

log = Log("bridge")

PAUSE_S = 2.0
PAGE = 100
"""Pods for each answer: a pod is some 12 KB of JSON."""

Found = Mapping[SlurmName, Disruption]


def path_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def read(api: Watches, namespace: str, pod: str = "") -> tuple[Found, str]:
    """The pods of the namespace (or the one of that name) that end now, and the version from which to watch.
    Raises ``KubeError``.

    Those of them that are no worker pods have the name of no Slurm node, and matter to nobody.
    """
    found: dict[SlurmName, Disruption] = {}
    version = ""
    path = path_of(namespace)
    query = {"limit": str(PAGE), **({"fieldSelector": f"metadata.name={pod}"} if pod else {})}
    for page in pages(lambda query: api.listed(path, query, CONDITION), query):
        version = str((page.get("metadata") or {}).get("resourceVersion", ""))
        for item in page.get("items") or ():
            each = disruption_of(item)
            if each is not None:
                found[_name(item)] = each
    return found, version


def ending(api: Watches, policy: BridgeConfig, pod: str = "") -> Found:
    """The worker pods (or the one of that name) that end now, if this configuration asks for them. Raises
    ``KubeError``.
    """
    return read(api, policy.worker_pods_namespace, pod)[0] if is_wanted(policy) else {}


def is_wanted(policy: BridgeConfig) -> bool:
    """Does a rule look at worker pods, and is it known where they are?"""
    return bool(policy.worker_pods_namespace) and any(rule.pod for rule in effective(policy.rules))


class Disruptions:
    """``changed`` is called after each change."""

    def __init__(self, api: Watches, namespace: str, changed: Callable[[], object]):
        self._api, self._namespace, self._changed = api, namespace, changed
        self._found: Found = {}
        self._version = ""
        self._thread = RepeatedStep(
            "disruptions", lambda: self.follow(), PAUSE_S, "worker pods cannot be watched"
        )

    def found(self) -> Found:
        """The pods that end. The same object until something changes."""
        return self._found

    def see(self, slurm: list[SlurmNode] | None, kube: list[KubeNode] | None, /) -> None:
        """It needs nothing of the loop's looks."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()

    def follow(self) -> None:
        """List, then watch until the version expires. After any other error, it goes on where it was. Raises
        ``KubeError``.
        """
        if not self._version:
            listed, self._version = read(self._api, self._namespace)
            self._set(listed)
        while not self._thread.is_stopped:
            begun = time.monotonic()
            try:
                self._watch()
            except KubeGone as error:
                log.info("the watch of worker pods expired: listing again", why=error)
                self._version = ""
                return
            if time.monotonic() - begun < 1:
                return  # a server that ends every stream at once is not to be hammered

    def _watch(self) -> None:
        """One stream, until the server ends it."""
        for kind, pod in self._api.watch(path_of(self._namespace), self._version):
            version = str((pod.get("metadata") or {}).get("resourceVersion", ""))
            self._version = version or self._version
            self._apply(kind, pod)
            if self._thread.is_stopped:
                return

    def _apply(self, kind: str, pod: Mapping[str, object]) -> None:
        if kind == "BOOKMARK":
            return
        name, each = _name(pod), None if kind == "DELETED" else disruption_of(pod)
        if each is None:
            self._set({key: value for key, value in self._found.items() if key != name})
        else:
            self._set({**self._found, name: each})

    def _set(self, found: Found) -> None:
        if found == self._found:
            return
        for name in found.keys() - self._found.keys():
            log.info("Kubernetes ends a pod", pod=name, reason=found[name].reason)
        self._found = found
        self._changed()


def _name(pod: Mapping[str, object]) -> SlurmName:
    meta = pod.get("metadata")
    return SlurmName(str(meta.get("name", ""))) if isinstance(meta, Mapping) else SlurmName("")
