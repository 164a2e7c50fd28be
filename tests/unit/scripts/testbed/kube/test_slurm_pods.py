"""Slurm's pods in a box whose machines have kubelets."""

from __future__ import annotations

from typing import Any

from testbed.kube.manifests import Worker, node, pod
from testbed.kube.slurm_pods import objects_for_kubelets

WORKER = Worker(pod="worker-0", node="computeinstance-0", address="10.77.0.1")
NODE_IMAGE, CONTROLLER_IMAGE = "node@sha256:0", "controller@sha256:0"


def made() -> list[dict[str, Any]]:
    return objects_for_kubelets([WORKER], NODE_IMAGE, CONTROLLER_IMAGE)


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (one for one in made() if one["kind"] == kind)
    return found


def test_objects_come_after_their_dependencies() -> None:
    kinds = dict.fromkeys(one["kind"] for one in made())
    assert list(kinds) == ["Namespace", "ServiceAccount", "Node", "StatefulSet", "Pod"]


def test_the_worker_pod_starts_slurmd_and_reports_for_itself() -> None:
    assert "status" not in of_kind("Node")
    assert of_kind("Node")["metadata"] == node(WORKER, "")["metadata"]
    worker = of_kind("Pod")
    assert worker["metadata"] == pod(WORKER)["metadata"]
    assert worker["spec"]["nodeName"] == WORKER.node
    (slurmd,) = worker["spec"]["containers"]
    assert (slurmd["image"], slurmd["imagePullPolicy"]) == (NODE_IMAGE, "Never")
    assert slurmd["command"][-3:] == ["/opt/sandbox/start-slurmd", "-D", "-b"]
    assert "resources" not in slurmd, "no device plugin runs: a pod that asks for GPUs is refused"


def test_slurmctld_has_one_pod_that_is_scheduled_away_from_the_workers() -> None:
    controller = of_kind("StatefulSet")
    assert controller["spec"]["replicas"] == 1
    template = controller["spec"]["template"]
    assert controller["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    (slurmctld,) = template["spec"]["containers"]
    assert (slurmctld["image"], slurmctld["imagePullPolicy"]) == (CONTROLLER_IMAGE, "Never")
    assert slurmctld["command"][-1] == "/opt/sandbox/start-slurmctld"
    wanted = template["spec"]["nodeSelector"].items()
    assert not wanted <= of_kind("Node")["metadata"]["labels"].items()
    assert "livenessProbe" not in slurmctld, "it would end the fault slurmctld-stopped"
