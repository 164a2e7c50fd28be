"""Nodes on a real API server for the random histories of ``tests/unit/k8s_bridge/strangers.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from testbed.kube.local import ApiServer

from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.api import Edit
from k8s_bridge.kube.client import Forms, KubeApi
from k8s_bridge.model.changes import NodeEvent
from k8s_bridge.model.snapshot import Condition, KubeNode
from k8s_bridge.names import FIELD_MANAGER, TAINT
from tests.unit.k8s_bridge.fake_cluster import BRIDGE, HUMAN, Clock, FakeCluster, FakeSlurm
from tests.unit.k8s_bridge.strangers import WORKERS, policies

LABEL, VALUE = "holdfast-test", "strangers"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class KillableApi(KubeApi):
    """The bridge's client. The bridge may be killed right before or right after each of its writes."""

    def __init__(self, policy: BridgeConfig, clock: Clock):
        super().__init__(policy)
        self._clock = clock

    def _call(self, method: str, *args: Any, **values: Any) -> dict[str, Any]:
        if method == "GET":
            return super()._call(method, *args, **values)
        answers: list[dict[str, Any]] = []
        call = super()._call
        self._clock.write(lambda: answers.append(call(method, *args, **values)))
        return answers[0]


class RealKube:
    """What ``FakeKube`` offers to tests, on the real API server: others act as the admin, each with a field
    manager of its own."""

    def __init__(self, server: ApiServer, policy: BridgeConfig, clock: Clock):
        self._admin = KubeApi(BridgeConfig(kubeconfig=str(server.kubeconfig), timeout_s=20))
        self._bridge = KillableApi(policy, clock)

    @property
    def raw(self) -> Mapping[str, dict[str, Any]]:
        """A copy of the present Nodes."""
        query = {"labelSelector": f"{LABEL}={VALUE}"}
        items = self._admin._call("GET", "/api/v1/nodes", query)["items"]
        return {item["metadata"]["name"]: item for item in items}

    @property
    def cordoned_by(self) -> Mapping[str, str]:
        found = {}
        for name, node in self.raw.items():
            for entry in node["metadata"].get("managedFields", ()):
                if "f:unschedulable" in (entry["fieldsV1"].get("f:spec") or {}):
                    manager = entry["manager"]
                    found[name] = BRIDGE if manager == FIELD_MANAGER else manager
        return found

    def add(self, name: str) -> None:
        taint = {"key": "other/taint", "effect": "NoExecute"}
        meta = {"name": name, "labels": {LABEL: VALUE}, "annotations": {"other/key": "theirs"}}
        node = {"metadata": meta, "spec": {"taints": [taint]}}
        self._admin._call("POST", "/api/v1/nodes", None, node)

    def delete(self, name: str) -> None:
        self._admin._call("DELETE", f"/api/v1/nodes/{name}")

    def cordon(self, name: str, on: bool, by: str = HUMAN) -> None:
        self._write(name, by, {"spec": {"unschedulable": True if on else None}})

    def annotate(self, name: str, key: str, value: str | None) -> None:
        self._write(name, HUMAN, {"metadata": {"annotations": {key: value}}})

    def taint(self, name: str, key: str, *, on: bool) -> None:
        taints = [t for t in self.raw[name]["spec"].get("taints", ()) if t["key"] != key]
        taints += [{"key": key, "effect": "NoExecute"}] if on else []
        self._write(name, "kubectl", {"spec": {"taints": taints}})

    def untaint(self, name: str) -> None:
        self.taint(name, TAINT, on=False)

    def show(self, name: str, condition: str, status: str) -> None:
        row = {"type": condition, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        self._write(f"{name}/status", "npd", {"status": {"conditions": [row]}}, STRATEGIC)

    def _write(self, path: str, by: str, patch: object, kind: str = MERGE) -> None:
        query = {"fieldManager": by}
        self._admin._call("PATCH", f"/api/v1/nodes/{path}", query, patch, Forms(kind))

    # what the bridge uses

    def list_nodes(self) -> tuple[list[KubeNode], str]:
        return self._bridge.list_nodes()

    def node(self, name: KubeName) -> KubeNode:
        return self._bridge.node(name)

    def edit(self, seen: KubeNode, decide: Callable[[KubeNode], Edit | None]) -> KubeNode:
        return self._bridge.edit(seen, decide)

    def patch_status(
        self, name: KubeName, conditions: list[Condition], label: str | None
    ) -> KubeNode:
        return self._bridge.patch_status(name, conditions, label)

    def create_events(self, node: KubeNode | None, events: list[NodeEvent]) -> None:
        self._bridge.create_events(node, events)


class RealCluster(FakeCluster):
    """Real Nodes, and by default a fake Slurm (``test_slurm`` compares it with the real one)."""

    machine = "stranger"

    def __init__(
        self,
        server: ApiServer,
        bridge: BridgeConfig,
        slurm: Callable[[Clock], FakeSlurm] = FakeSlurm,
    ):
        """``bridge``: with the bridge's own kubeconfig, and its user in Slurm."""
        self.policy = policy = policies(
            kubeconfig=bridge.kubeconfig,
            timeout_s=20,
            node_selector=f"{LABEL}={VALUE}",
            slurm_user=bridge.slurm_user,
        )[0]
        self.clock = Clock()
        self.slurm = slurm(self.clock)
        self.kube = RealKube(server, policy, self.clock)  # type: ignore[assignment]
        self.remove()
        for i in range(WORKERS):
            self.slurm.add(f"worker-{i}", f"stranger-{i}")
            self.kube.add(f"stranger-{i}")

    def remove(self) -> None:
        """All of its Nodes."""
        for name in self.kube.raw:
            self.kube.delete(name)

    def versions(self) -> dict[str, str]:
        """Of each Node; they change with every write."""
        return {name: row["metadata"]["resourceVersion"] for name, row in self.kube.raw.items()}
