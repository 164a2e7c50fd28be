"""A real API server with workloads of three kinds. The tests act as their controllers and as the kubelet."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from testbed.kube.local import ApiServer

from holdfast.cli.commands.render import render_text
from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig, WorkloadSettings
from k8s_bridge.kube.api import KubeFailed, KubeNotFound
from k8s_bridge.kube.client import KubeApi
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.workloads.kinds import JOB, JOB_SET, KINDS, OPT_IN, RESTART, Kind
from k8s_bridge.workloads.recovery import Recovery
from k8s_bridge.workloads.rights import needed
from tests.contract.waits import until

TEAM, OTHERS = "team-a", "team-b"
BAD, GOOD = KubeName("computeinstance-0"), KubeName("computeinstance-1")
PODS = "/api/v1/namespaces/{}/pods"
RECORD = {
    "holdfast.dev/origin": "slurm",
    "holdfast.dev/record": json.dumps(
        {"origin": "slurm", "reason": "holdfast:XID79: fell off the bus", "by": "root",
         "at": "2026-11-20T12:00:00+00:00", "cordon": True}
    ),
}  # fmt: skip
"""What the bridge writes on a Node with the cordon for a drain by an agent."""


class RecordedApi:
    """The bridge's own client. ``requests``: those that write; ``killed_after``: so many of them pass."""

    def __init__(self, kube: KubeApi):
        self._kube = kube
        self.requests: list[tuple[str, str]] = []
        self.killed_after: int | None = None

    def request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None
    ) -> dict[str, Any]:
        if method != "GET":
            if self.killed_after is not None and len(self.requests) >= self.killed_after:
                raise SystemExit("killed")
            self.requests.append((method, path))
        return self._kube.request(method, path, query, body)

    def node(self, name: KubeName) -> KubeNode:
        return self._kube.node(name)

    @property
    def evicted(self) -> list[str]:
        """Names of pods, one entry for each request."""
        return sorted(
            path.split("/")[-2] for _, path in self.requests if path.endswith("/eviction")
        )


class WorkloadCluster:
    """``namespaces``: those of the bridge's configuration."""

    def __init__(self, admin: ApiServer, access: BridgeConfig):
        self.admin = admin
        self.policy = BridgeConfig(
            kubeconfig=access.kubeconfig,
            timeout_s=20,
            connections=1,
            workloads=WorkloadSettings(namespaces=(TEAM,), backoff_s=0),
        )
        self.kube = KubeApi(self.policy)
        self.root = KubeApi(BridgeConfig(kubeconfig=str(admin.kubeconfig), timeout_s=20))
        self.api = RecordedApi(self.kube)
        self.now = time.time()

    def install(self) -> None:
        """Definitions, namespaces, and the bridge's rights in one of the namespaces."""
        for text in (
            Path(__file__).with_name("workload_definitions.yaml").read_text(),
            render_text("workloads-rbac", namespaces=TEAM),
        ):
            if "CustomResource" not in text:
                for name in (TEAM, OTHERS):
                    self.admin.kubectl("create", "namespace", name)
                    self.admin.kubectl("create", "serviceaccount", "default", "-n", name)
            self.admin.kubectl("apply", "-f", "-", stdin=text)
        for name in ("pytorchjobs.kubeflow.org", "jobsets.jobset.x-k8s.io"):
            self.admin.kubectl(
                "wait", "--for=condition=Established", "--timeout=60s", f"crd/{name}"
            )
        until(lambda: all(map(self.kube.may, needed(self.policy))))
        for kind in KINDS:
            until(partial(self._can_be_listed, kind.path(TEAM)))

    def _can_be_listed(self, path: str) -> bool:
        """The storage of a new kind is there a moment after its definition."""
        try:
            self.kube.request("GET", path)
        except KubeFailed:
            return False
        return True

    def clear(self) -> None:
        """No workloads, no pods, healthy Nodes."""
        events = "/apis/events.k8s.io/v1/namespaces/{}/events"
        guards = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        for namespace in (TEAM, OTHERS):
            paths = [kind.path(namespace) for kind in KINDS]
            paths += [each.format(namespace) for each in (events, guards, PODS)]
            for path in paths:
                self.root.request("DELETE", path, body=now)
            until(partial(self._has_no_pods, namespace))
        self.isolate(on=False)

    def _has_no_pods(self, namespace: str) -> bool:
        """The controller of Jobs, where there is one, keeps a pod until it has counted it."""
        left = self.items(PODS.format(namespace))
        for pod in left:
            path = f"{PODS.format(namespace)}/{pod['metadata']['name']}"
            try:
                self.patch(path, {"metadata": {"finalizers": None}})
                self.root.request("DELETE", path, body={"gracePeriodSeconds": 0})
            except KubeNotFound:
                pass
        return not left

    def isolate(self, *, on: bool = True) -> None:
        """As the bridge does for a drain by an agent."""
        notes = RECORD if on else dict.fromkeys(RECORD)
        spec = {"unschedulable": True if on else None}
        self.patch(f"/api/v1/nodes/{BAD}", {"metadata": {"annotations": notes}, "spec": spec})

    def patch(self, path: str, patch: object) -> None:
        self.root.request("PATCH", path, body=patch)

    def workload(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str = TEAM,
        labels: Mapping[str, str] | None = None,
        owner: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A workload that asks for restarts, without pods."""
        template = {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
        }
        meta = {"name": name, "namespace": namespace, "labels": labels or {OPT_IN: "true"}}
        made = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {**meta, "ownerReferences": [reference(owner)] if owner else []},
            "spec": {"template": template} if kind is JOB else {},
        }
        return self.root.request("POST", kind.path(namespace), body=made)

    def pods(self, kind: Kind, workload: Mapping[str, Any], count: int = 2) -> list[str]:
        """Running pods as the workload's controller creates them, number ``i`` on Node number ``i``."""
        meta = workload["metadata"]
        owner = workload
        if kind is JOB_SET:
            labels = {JOB_SET.pod_label: meta["name"]}
            owner = self.workload(JOB, f"{meta['name']}-0", labels=labels, owner=workload)
        return [
            self.pod(f"{meta['name']}-{i}", kind, meta["name"], owner, node=(BAD, GOOD)[i % 2])
            for i in range(count)
        ]

    def pod(
        self,
        name: str,
        kind: Kind,
        workload: str,
        owner: Mapping[str, Any] | None,
        *,
        node: str = GOOD,
        namespace: str = TEAM,
    ) -> str:
        """One pod; returns its UID. ``owner``: its controller; ``workload``: in its label."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {kind.pod_label: workload},
                "ownerReferences": [reference(owner)] if owner else [],
            },
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
        }
        made = self.root.request("POST", PODS.format(namespace), body=pod)
        self.status(name, {"phase": "Running"}, namespace)
        return str(made["metadata"]["uid"])

    def status(self, name: str, status: object, namespace: str = TEAM) -> None:
        """What the kubelet reports."""
        self.patch(f"{PODS.format(namespace)}/{name}/status", {"status": status})

    def fail(self, name: str, message: str) -> None:
        """Its container ended with that termination message."""
        ended = {"exitCode": 1, "reason": "Error", "message": message}
        row = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
        rows = [{**row, "state": {"terminated": ended}}]
        self.status(name, {"phase": "Failed", "containerStatuses": rows})

    def kill(self, *names: str) -> None:
        """The kubelet has ended them."""
        for name in names:
            path = f"{PODS.format(TEAM)}/{name}"
            self.root.request("DELETE", path, body={"gracePeriodSeconds": 0})

    def look(self, recovery: Recovery | None = None) -> int:
        """One look by a bridge, without one by a bridge that has just started."""
        chosen = recovery or Recovery(self.api, self.policy)
        chosen.see((), self.kube.list_nodes()[0])
        self.now += 1
        return chosen.step(self.now)

    def terminating(self, namespace: str = TEAM) -> set[str]:
        """Names of pods that were evicted and that the kubelet has not ended yet."""
        return {
            each["metadata"]["name"]
            for each in self.items(PODS.format(namespace))
            if each["metadata"].get("deletionTimestamp")
        }

    def items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.root.request("GET", path)["items"]
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.items(f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events")

    def record(self, kind: Kind, name: str) -> dict[str, Any]:
        found = self.root.request("GET", kind.path(TEAM, name))
        record: dict[str, Any] = json.loads(found["metadata"]["annotations"][RESTART])
        return record


def reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    """As a controller writes it."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
