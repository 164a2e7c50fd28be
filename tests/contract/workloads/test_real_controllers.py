"""With Kubernetes' own controllers of Jobs and of PodDisruptionBudgets, where kube-controller-manager is built
(``scripts/sandbox up --pods`` builds it).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testbed.kube.local import ApiServer
from testbed.paths import cache
from testbed.pods.programs import build_key, is_built

from k8s_bridge.config import BridgeConfig
from k8s_bridge.workloads.kinds import JOB, OPT_IN
from tests.contract.waits import until
from tests.contract.workloads.test_worker_pods import (
    BUSY,
    DRAINED,
    DRAINING,
    GUARD,
    IDLE,
    Workers,
    installed_workers,
)
from tests.contract.workloads.workload_cluster import BAD, PODS, TEAM, WorkloadCluster

IGNORED = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
}
"""As docs/howto/kubernetes-jobs.md has it."""


@pytest.fixture(scope="module")
def manager(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if not is_built(cache()):
        pytest.skip("kube-controller-manager is not built (scripts/sandbox up --pods)")
    log = tmp_path_factory.mktemp("manager") / "log"
    argv = [
        *("setpriv", "--pdeathsig", "KILL", "--"),
        str(cache() / "pods" / build_key() / "kube-controller-manager"),
        f"--kubeconfig={api_server.kubeconfig}",
        "--controllers=job-controller,disruption-controller",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    with log.open("wb") as out:
        child = subprocess.Popen(argv, stdout=out, stderr=out)
    yield log
    child.kill()
    child.wait()


def pods(cluster: WorkloadCluster) -> dict[str, str]:
    """Name → UID of the pods that are not being deleted."""
    found = cluster.items(PODS.format(TEAM))
    return {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in found
        if not each["metadata"].get("deletionTimestamp")
    }


def conditions(cluster: WorkloadCluster) -> set[str]:
    status = cluster.root.request("GET", JOB.path(TEAM, "train")).get("status") or {}
    return {c["type"] for c in status.get("conditions") or () if c["status"] == "True"}


@pytest.mark.parametrize("policy", [IGNORED, None], ids=["policy", "no policy"])
def test_a_job_replaces_its_pods_and_counts_no_failure_with_the_policy_of_the_page(
    manager: Path, cluster: WorkloadCluster, policy: dict[str, Any] | None
) -> None:
    containers = [{"name": "main", "image": "none"}]
    spec: dict[str, Any] = {
        **{"parallelism": 2, "completions": 2, "backoffLimit": 0},
        **({"podFailurePolicy": policy} if policy else {}),
        "template": {"spec": {"restartPolicy": "Never", "nodeName": BAD, "containers": containers}},
    }
    job = {"metadata": {"name": "train", "labels": {OPT_IN: "true"}}, "spec": spec}
    cluster.root.request("POST", JOB.path(TEAM), body=job)
    until(lambda: len(pods(cluster)) == 2)
    first = pods(cluster)
    for name in first:
        cluster.status(name, {"phase": "Running"})
    cluster.isolate()
    assert cluster.look() == 1
    assert cluster.terminating() == first.keys()
    for name in first:  # as the kubelet does
        cluster.status(name, {"phase": "Failed"})
    cluster.kill(*first)
    if policy is None:
        until(lambda: "Failed" in conditions(cluster))
        return
    until(lambda: len(pods(cluster)) == 2 and not first.keys() & pods(cluster).keys())
    assert cluster.look() == 0
    assert not cluster.terminating(), "the next attempt is left alone"
    assert "Failed" not in conditions(cluster)


@pytest.fixture
def workers(manager: Path, api_server: ApiServer, bridge_policy: BridgeConfig) -> Iterator[Workers]:
    yield from installed_workers(api_server, bridge_policy)


def test_the_disruption_controller_allows_no_eviction_but_of_free_pods(workers: Workers) -> None:
    def status() -> dict[str, Any]:
        found: dict[str, Any] = workers.root.request("GET", GUARD).get("status") or {}
        return found

    until(lambda: status().get("observedGeneration") == 1)
    assert workers.look(worker_0=IDLE, worker_1=BUSY) == 0
    until(lambda: status().get("expectedPods") == 2)
    assert status()["disruptionsAllowed"] == 0
    assert not workers.evicts("worker-0")
    assert workers.look(worker_0=DRAINED, worker_1=DRAINING) == 1
    assert workers.evicts("worker-0")
    assert not workers.evicts("worker-1")
