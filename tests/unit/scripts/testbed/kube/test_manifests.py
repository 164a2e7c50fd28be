"""The objects of a Soperator cluster, and the calls that create them."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.kube import Binaries, ControlPlane, Worker, bridge_kubeconfig, provision, provisioning
from testbed.kube.manifests import as_list, node, objects, pod, pod_status

NOW = "2026-01-02T03:04:05Z"
WORKER = Worker(pod="worker-3", node="computeinstance-3", address="10.77.0.4")


class Recorder:
    """A fake kubectl that records its calls."""

    def __init__(self, answer: str = "") -> None:
        self.calls: list[tuple[tuple[str, ...], str | None]] = []
        self.answer = answer

    def __call__(self, *args: str, stdin: str | None = None) -> str:
        self.calls.append((args, stdin))
        return self.answer


def test_a_node_is_what_its_kubelet_registers() -> None:
    made = node(WORKER, NOW)
    assert (
        made["metadata"]["name"]
        == made["metadata"]["labels"]["kubernetes.io/hostname"]
        == "computeinstance-3"
    )
    assert (
        made["status"]["capacity"]["nvidia.com/gpu"]
        == made["status"]["allocatable"]["nvidia.com/gpu"]
        == "8"
    )
    assert {row["type"]: row["status"] for row in made["status"]["conditions"]} == {
        "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"
    }  # fmt: skip
    assert {row["lastTransitionTime"] for row in made["status"]["conditions"]} == {NOW}
    assert made["metadata"]["labels"]["slurm.nebius.ai/nodeset-name"] == "worker"


def test_a_pod_has_the_name_of_its_slurm_node_and_is_bound_to_its_machine() -> None:
    made = pod(WORKER)
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("worker-3", "soperator")
    assert made["spec"]["nodeName"] == "computeinstance-3"
    labels = made["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] == "slurmcluster"
    assert labels["app.kubernetes.io/component"] == "nodeset"
    assert labels["apps.kubernetes.io/pod-index"] == "3"
    assert pod_status(WORKER, NOW)["status"]["phase"] == "Running"


def test_a_pod_tolerates_its_nodes_taint() -> None:
    (taint,) = node(WORKER, NOW)["spec"]["taints"]
    (toleration,) = pod(WORKER)["spec"]["tolerations"]
    assert (taint["key"], taint["effect"]) == (toleration["key"], toleration["effect"])


def test_objects_come_after_their_dependencies() -> None:
    kinds = [item["kind"] for item in objects([WORKER, WORKER], NOW)]
    assert list(dict.fromkeys(kinds)) == ["Namespace", "ServiceAccount", "Node", "Pod"]
    accounts = {
        item["metadata"]["name"]
        for item in objects([WORKER], NOW)
        if item["kind"] == "ServiceAccount"
    }
    assert pod(WORKER)["spec"]["serviceAccountName"] in accounts


def test_any_number_of_nodes_needs_three_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provisioning, "bridge_manifest", lambda: "rights")
    kubectl = Recorder()
    workers = [
        Worker(pod=f"worker-{i}", node=f"computeinstance-{i}", address=f"10.77.0.{i + 1}")
        for i in range(50)
    ]
    provision(kubectl, workers, datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc))
    (first, objects_sent), (second, statuses_sent), (third, rights) = kubectl.calls
    assert "--server-side" in first
    assert json.loads(objects_sent or "") == as_list(objects(workers, NOW))
    assert "--subresource=status" in second
    assert len(json.loads(statuses_sent or "")["items"]) == 50
    assert (third, rights) == (("apply", "-f", "-"), "rights")


def test_a_manifest_without_the_bridges_account_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Render:
        @staticmethod
        def render_text(_: str) -> str:
            return "kind: Nothing"

    monkeypatch.setattr("importlib.import_module", lambda _: Render)
    with pytest.raises(SandboxError, match="no ServiceAccount holdfast-bridge"):
        provisioning.bridge_manifest()


def test_the_bridge_uses_a_token_of_its_own_account(tmp_path: Path) -> None:
    plane = ControlPlane(
        folder=tmp_path, inside=tmp_path, binaries=Binaries.of(tmp_path), address="127.0.0.1"
    )
    plane.prepare()
    kubectl = Recorder("the-token\n")
    config = json.loads(bridge_kubeconfig(kubectl, plane))
    assert config["users"][0]["user"] == {"token": "the-token"}
    assert kubectl.calls[0][0][:4] == ("create", "token", "holdfast-bridge", "--namespace=holdfast")
