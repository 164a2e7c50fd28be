"""The eviction of worker pods on a real API server: kubectl drain waits for the job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from testbed.kube.local import ApiServer

from holdfast.cli.commands.render import render_text
from holdfast.errors import UsageError
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState as S
from holdfast.vocabulary import SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.access import Right
from k8s_bridge.kube.api import KubeFailed, KubeRefused
from k8s_bridge.kube.client import KubeApi
from k8s_bridge.worker_pods.disruptions import Disruptions, ending
from k8s_bridge.worker_pods.evictable import EVICTABLE
from k8s_bridge.worker_pods.protection import Protection, require
from tests.contract.waits import until, until_in_force
from tests.unit.k8s_bridge.fake_cluster import Clock, FakeSlurm

WORKERS = "soperator"
PODS = f"/api/v1/namespaces/{WORKERS}/pods"
GUARD = f"/apis/policy/v1/namespaces/{WORKERS}/poddisruptionbudgets/holdfast-workers"


class Workers:
    def __init__(self, admin: ApiServer, access: BridgeConfig):
        self.policy = replace(access, worker_pods_namespace=WORKERS)
        self.root = KubeApi(BridgeConfig(kubeconfig=str(admin.kubeconfig), timeout_s=20))
        self.kube = KubeApi(self.policy)
        self.protection = Protection(self.kube, WORKERS)

    def evicts(self, pod: str) -> bool:
        """Would the API server evict it, as for kubectl drain? Nothing is evicted."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        try:
            self.root.request("POST", f"{PODS}/{pod}/eviction", {"dryRun": "All"}, body)
        except KubeFailed as error:
            return "429" not in str(error)
        return True

    def look(self, **states: frozenset[S]) -> int:
        """A look of the bridge at Slurm's nodes worker-0 and worker-1."""
        slurm = FakeSlurm(Clock())
        nodes: list[SlurmNode] = []
        for name, wanted in states.items():
            slurm.add(name.replace("_", "-"), name)
            nodes.append(replace(slurm.nodes()[-1], states=wanted))
        self.protection.see(nodes, None)
        return self.protection.step()


IDLE, BUSY = frozenset({S.IDLE}), frozenset({S.ALLOCATED})
DRAINED, DRAINING = frozenset({S.IDLE, S.DRAIN}), frozenset({S.ALLOCATED, S.DRAIN})


def installed_workers(admin: ApiServer, access: BridgeConfig) -> Iterator[Workers]:
    """As an administrator installs it; removed afterwards."""
    made = Workers(admin, access)
    text = render_text("worker-pods")
    admin.kubectl("apply", "-f", "-", stdin=text)
    until(lambda: made.kube.may(Right("patch", "pods", namespace=WORKERS)))
    yield made
    made.protection.see([], None)
    made.protection.step()
    admin.kubectl("delete", "-f", "-", stdin=text)


@pytest.fixture(scope="module")
def workers(api_server: ApiServer, bridge_policy: BridgeConfig) -> Iterator[Workers]:
    for made in installed_workers(api_server, bridge_policy):
        # What the disruption controller writes, as no pod may be missing.
        numbers = {"disruptionsAllowed": 0, "currentHealthy": 2, "expectedPods": 2}
        status = {"observedGeneration": 1, "desiredHealthy": 2**31 - 1, **numbers}
        made.root.request("PATCH", f"{GUARD}/status", body={"status": status})
        yield made


def test_only_the_pod_of_a_drained_node_without_a_job_is_evicted(workers: Workers) -> None:
    assert workers.look(worker_0=IDLE, worker_1=BUSY) == 0
    assert not workers.evicts("worker-0")
    assert not workers.evicts("worker-1")
    assert workers.look(worker_0=DRAINED, worker_1=DRAINING) == 1
    assert workers.evicts("worker-0")
    assert not workers.evicts("worker-1"), "a job runs in it"
    assert workers.look(worker_0=DRAINED, worker_1=DRAINED) == 1
    assert workers.evicts("worker-1")
    assert workers.look(worker_0=IDLE, worker_1=DRAINED) == 1
    assert not workers.evicts("worker-0"), "undrained: a job may start in it"


def test_a_bridge_that_starts_again_or_knows_nothing_changes_no_label(workers: Workers) -> None:
    workers.look(worker_0=DRAINED, worker_1=BUSY)
    workers.protection = Protection(workers.kube, WORKERS)
    assert workers.look(worker_0=DRAINED, worker_1=BUSY) == 0
    workers.protection.see(None, None)
    assert workers.protection.step() == 0
    assert workers.evicts("worker-0")


def test_a_pod_that_kubernetes_ends_is_seen_with_the_time_of_its_end(workers: Workers) -> None:
    """A real eviction. Without a kubelet the pod ends when it is deleted at once."""
    woken = threading.Event()
    watched = Disruptions(workers.kube, WORKERS, woken.set)
    victim = SlurmName("victim")
    spec = {
        "nodeName": "computeinstance-0",
        "terminationGracePeriodSeconds": 600,
        "containers": [{"name": "main", "image": "none"}],
    }
    body = {"metadata": {"name": victim}, "spec": spec}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim}}
    watched.start()
    try:
        workers.root.request("POST", PODS, body=body)
        begun = time.time()
        workers.root.request("POST", f"{PODS}/{victim}/eviction", body=eviction)
        until(lambda: victim in watched.found())
        found = watched.found()[victim]
        assert found.reason == "EvictionByEvictionAPI"
        assert begun + 590 <= found.until <= time.time() + 610
        assert woken.is_set(), "the bridge's loop does not wait for its next look"
        assert ending(workers.kube, workers.policy) == watched.found()
        assert ending(workers.kube, workers.policy, victim) == watched.found()
        assert ending(workers.kube, workers.policy, "worker-0") == {}
    finally:
        workers.root.request("DELETE", f"{PODS}/{victim}", {"gracePeriodSeconds": "0"})
    until(lambda: not watched.found())
    watched.stop()


def test_a_node_without_a_pod_stops_nobody(workers: Workers) -> None:
    workers.look(worker_0=IDLE, worker_1=IDLE)
    assert workers.look(worker_0=DRAINED, worker_9=DRAINED) == 1
    assert workers.evicts("worker-0")


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"labels": {"app.kubernetes.io/component": "other"}}},
        {"metadata": {"labels": {EVICTABLE: "true", "a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.org/x"]}},
        {"spec": {"activeDeadlineSeconds": 1}},
    ],
    ids=str,
)
def test_the_bridges_token_changes_nothing_else_of_a_pod(
    workers: Workers, patch: dict[str, object]
) -> None:
    until_in_force(workers.kube, f"{PODS}/worker-0")
    with pytest.raises(KubeRefused, match=r"403: .*denied request: of a pod"):
        workers.kube.request("PATCH", f"{PODS}/worker-0", body=patch)


def test_a_missing_right_is_named_at_the_start(workers: Workers) -> None:
    require(workers.kube, workers.policy, "kubeconfig")
    other = replace(workers.policy, worker_pods_namespace="default")
    with pytest.raises(
        UsageError,
        match="may not list pods in default, watch pods in default, patch pods in default; add",
    ):
        require(workers.kube, other, "kubeconfig")
