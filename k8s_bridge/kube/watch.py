"""All Nodes, kept current by one LIST and one WATCH in a separate thread."""

from __future__ import annotations

import random
import threading
import time

from holdfast.adapters.log import Log
from holdfast.errors import HoldfastError
from holdfast.vocabulary import KubeName
from k8s_bridge.kube.api import Kube, KubeGone, WatchEvent
from k8s_bridge.model.snapshot import KubeNode, is_newer

log = Log("bridge")

_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 5.0


class NodeWatch:
    """The last known Nodes.

    ``wake`` is set whenever something changes that a decision depends on.
    """

    def __init__(self, kube: Kube, wake: threading.Event):
        self._kube, self._wake = kube, wake
        self._lock = threading.Lock()
        self._nodes: dict[KubeName, KubeNode] = {}
        self._listed: list[KubeNode] | None = None
        self._current = False
        self._stopped = threading.Event()
        self.problem = ""
        """Why the API server cannot be watched now, as far as it is known."""

    def start(self) -> None:
        """Watch until ``stop`` or the end of the process."""
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def stop(self) -> None:
        """Stop watching. The thread ends after its present call; this method does not wait for it."""
        self._stopped.set()

    def nodes(self) -> list[KubeNode] | None:
        """All Nodes, or ``None`` while the API server cannot be watched: nothing is written from an
        outdated view. The same list as before if no Node changed in anything that is planned with.
        """
        with self._lock:
            if not self._current:
                return None
            if self._listed is None:
                self._listed = list(self._nodes.values())
            return self._listed

    def known(self, name: KubeName) -> KubeNode | None:
        """The last known version of a Node."""
        with self._lock:
            return self._nodes.get(name)

    def update(self, node: KubeNode) -> None:
        """Store a Node from the answer to a write, before the watch reports it."""
        with self._lock:
            self._store(node)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        failed = 0
        while not self._stopped.is_set():
            begun = time.monotonic()
            try:
                self._follow()
            except KubeGone as error:
                log.info("the watch expired: listing again", why=error)
            except HoldfastError as error:
                self.problem = str(error)
                failed = 1 if time.monotonic() - begun > 30 else failed + 1
                if failed in (1, 3) or failed % 20 == 0:
                    log.warning("Kubernetes cannot be watched", tries=failed, why=error)
            except Exception as error:
                log.exception("the watch failed; retrying", error)
            with self._lock:
                self._current = False
            pause_s = (
                _FIRST_PAUSE_S
                if time.monotonic() - begun > 30
                else min(2 * pause_s, _LONGEST_PAUSE_S)
            )
            self._stopped.wait(pause_s * random.uniform(0.5, 1.0))

    def _follow(self) -> None:
        """List, then watch repeatedly; ends with an error, or after ``stop``."""
        listed, version = self._kube.list_nodes()
        with self._lock:
            self._nodes = {node.name: node for node in listed}
            self._listed, self._current = None, True
        self.problem = ""
        self._wake.set()
        log.info("watching Nodes", nodes=len(listed))
        while not self._stopped.is_set():
            begun = time.monotonic()
            for seen in self._kube.watch_nodes(version):
                version = seen.version or version
                self._apply(seen)
                if self._stopped.is_set():
                    return
            if time.monotonic() - begun < 1:
                self._stopped.wait(
                    1
                )  # a server that ends every stream at once is not to be hammered

    def _apply(self, seen: WatchEvent) -> None:
        if seen.node is None:
            return
        with self._lock:
            if seen.gone:
                known = self._nodes.get(seen.node.name)
                changed = known is not None and known.uid == seen.node.uid
                if changed:
                    del self._nodes[seen.node.name]
                    self._listed = None
            else:
                changed = self._store(seen.node)
        if changed:
            self._wake.set()

    def _store(self, node: KubeNode) -> bool:
        """True when a decision may change. A version older than the known one is ignored."""
        known = self._nodes.get(node.name)
        if known is not None and known.uid == node.uid and is_newer(known.version, node.version):
            return False
        self._nodes[node.name] = node
        if known is not None and known.same_content(node):
            return False  # a heartbeat: only the version is new
        self._listed = None
        return known is None or known.facts != node.facts
