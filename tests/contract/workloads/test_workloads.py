"""Restarts of workloads on a real API server, with the bridge's own account."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import UsageError
from k8s_bridge.config import BridgeConfig, WorkloadSettings
from k8s_bridge.kube.access import Right
from k8s_bridge.kube.api import KubeConflict, KubeRefused
from k8s_bridge.workloads.kinds import JOB, KINDS, OPT_IN, OPT_IN_KCOVER, PYTORCH_JOB, RESTART, Kind
from k8s_bridge.workloads.objects import Pod
from k8s_bridge.workloads.patches import eviction
from k8s_bridge.workloads.record import RestartRecord, short
from k8s_bridge.workloads.recovery import Recovery
from k8s_bridge.workloads.rights import require
from tests.contract.waits import until_in_force
from tests.contract.workloads.workload_cluster import BAD, OTHERS, PODS, TEAM, WorkloadCluster

OFF_THE_BUS = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
TYPO = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'nump'"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_all_pods_of_a_workload_are_restarted_once(cluster: WorkloadCluster, kind: Kind) -> None:
    workload = cluster.workload(kind, "train")
    uids = cluster.pods(kind, workload)
    assert cluster.look() == 0
    assert cluster.api.requests == []

    cluster.isolate()
    assert cluster.look() == 1
    assert cluster.terminating() == {"train-0", "train-1"}
    assert cluster.api.evicted == ["train-0", "train-1"]
    record = cluster.record(kind, "train")
    assert record["by"] == "holdfast-bridge"
    assert record["incident"] == f"XID79 on Node {BAD}, under pod train-0"
    assert record["pods"] == sorted(map(short, uids))
    (event,) = cluster.events
    assert (event["reason"], event["regarding"]["uid"]) == (
        "CascadingRestart",
        workload["metadata"]["uid"],
    )
    assert f"XID79 on Node {BAD}" in event["note"]
    condition = cluster.items(PODS.format(TEAM))[0]["status"]["conditions"]
    assert [c["reason"] for c in condition if c["type"] == "DisruptionTarget"] == [
        "EvictionByEvictionAPI"
    ]

    cluster.kill("train-0", "train-1")
    owner = workload
    if kind.has_jobs:
        owner = cluster.root.request("GET", JOB.path(TEAM, "train-0"))
    for i in range(2):
        cluster.pod(f"train-{i}", kind, "train", owner)
    assert [cluster.look() for _ in range(3)] == [0, 0, 0]
    assert cluster.terminating() == set(), "the next attempt is left alone"


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_bridge_that_is_killed_at_any_write_is_continued(
    cluster: WorkloadCluster, writes: int
) -> None:
    """The record, the Event, the first eviction: what follows is done by the next bridge, nothing twice."""
    cluster.pods(PYTORCH_JOB, cluster.workload(PYTORCH_JOB, "train"))
    cluster.isolate()
    cluster.api.killed_after = writes
    with pytest.raises(SystemExit):
        cluster.look()
    cluster.api.killed_after = None
    assert cluster.look() == 0
    assert cluster.api.evicted == ["train-0", "train-1"]
    assert len(cluster.record(PYTORCH_JOB, "train")["past"]) == 1


def test_two_bridges_restart_a_workload_once(cluster: WorkloadCluster) -> None:
    cluster.pods(JOB, cluster.workload(JOB, "train"), 4)
    cluster.isolate()
    views = cluster.kube.list_nodes()[0]
    bridges = [Recovery(cluster.kube, cluster.policy) for _ in range(2)]
    for bridge in bridges:
        bridge.see((), views)
    with ThreadPoolExecutor(2) as pool:
        begun = sum(pool.map(lambda bridge: bridge.step(cluster.now), bridges))
    cluster.look()
    assert begun == 1
    assert len(cluster.record(JOB, "train")["past"]) == 1
    assert len(cluster.terminating()) == 4


def test_an_eviction_with_an_old_uid_evicts_nothing(cluster: WorkloadCluster) -> None:
    """A pod of the next attempt may have the same name."""
    (uid,) = cluster.pods(PYTORCH_JOB, cluster.workload(PYTORCH_JOB, "train"), 1)
    path = f"/api/v1/namespaces/{TEAM}/pods/train-0/eviction"
    other = eviction(TEAM, Pod(name="train-0", uid="0" * 8 + uid[8:], owner=""))
    with pytest.raises(KubeConflict, match="409"):
        cluster.kube.request("POST", path, body=other)
    assert cluster.terminating() == set()
    cluster.kube.request("POST", path, body=eviction(TEAM, Pod(name="train-0", uid=uid, owner="")))
    assert cluster.terminating() == {"train-0"}


def test_the_label_of_kcover_counts_and_no_label_means_no(cluster: WorkloadCluster) -> None:
    for name, labels in {
        "kcover": {OPT_IN_KCOVER: "true"},
        "refuses": {OPT_IN: "false", OPT_IN_KCOVER: "true"},
        "silent": {"app": "train"},
    }.items():
        cluster.pods(JOB, cluster.workload(JOB, name, labels=labels))
    cluster.isolate()
    cluster.look()
    assert cluster.terminating() == {"kcover-0", "kcover-1"}


def test_nobody_can_have_the_pods_of_others_restarted(cluster: WorkloadCluster) -> None:
    """Neither by labels, nor by owner references to another namespace, nor by a record with their UIDs."""
    victim = cluster.workload(JOB, "victim", labels={"app": "victim"})
    cluster.pods(JOB, victim)
    mine = cluster.workload(JOB, "mine")
    cluster.pod("mine-0", JOB, "mine", mine, node=BAD)
    # The victim's pods with my workload's label: their controller is another one.
    stolen = cluster.pod("labelled", JOB, "mine", victim)
    bare = cluster.pod("bare", JOB, "mine", None)
    # Another namespace, where the bridge has no rights.
    away = cluster.workload(JOB, "mine", namespace=OTHERS)
    cluster.pod("mine-0", JOB, "mine", away, node=BAD, namespace=OTHERS)
    cluster.pod("crossing", JOB, "mine", mine, node=BAD, namespace=OTHERS)
    both = frozenset({short(stolen), short(bare)})
    forged = RestartRecord(at=cluster.now, incident="x", key="x", pods=both)
    note = {"metadata": {"annotations": {RESTART: forged.dump()}}}
    cluster.patch(JOB.path(TEAM, "mine"), note)
    cluster.isolate()
    for _ in range(3):
        cluster.look()
    assert cluster.terminating() == {"mine-0"}
    assert cluster.terminating(OTHERS) == set()


@pytest.mark.parametrize("removes", [False, True])
def test_a_termination_message_restarts_only_its_own_workload_within_the_budget(
    cluster: WorkloadCluster, removes: bool
) -> None:
    """Also if the user removes what the bridge wrote."""
    cluster.pods(JOB, cluster.workload(JOB, "beside"))
    cluster.pods(JOB, cluster.workload(JOB, "wrong"))
    cluster.fail("wrong-0", TYPO)
    forger = cluster.workload(JOB, "forger")
    bridge = Recovery(cluster.api, cluster.policy)
    begun = 0
    for attempt in range(5):
        name = f"forger-{attempt}"
        cluster.pod(name, JOB, "forger", forger)
        cluster.pod(f"rank-{attempt}", JOB, "forger", forger)
        cluster.fail(name, OFF_THE_BUS)
        begun += cluster.look(bridge)
        if removes:
            cluster.patch(JOB.path(TEAM, "forger"), {"metadata": {"annotations": {RESTART: None}}})
    most = cluster.policy.workloads.max_restarts
    assert begun == most or (removes and 0 < begun < most)
    assert {name.split("-")[0] for name in cluster.terminating()} == {"rank"}
    assert "RestartWithheld" in {event["reason"] for event in cluster.events}


def test_a_label_that_comes_and_goes_restarts_nothing_twice(cluster: WorkloadCluster) -> None:
    cluster.pods(PYTORCH_JOB, cluster.workload(PYTORCH_JOB, "train"))
    cluster.isolate()
    for _ in range(3):
        cluster.look()
        for value in (None, "true"):
            path = PYTORCH_JOB.path(TEAM, "train")
            cluster.patch(path, {"metadata": {"labels": {OPT_IN: value}}})
            cluster.look()
    assert cluster.api.evicted == ["train-0", "train-1"]


def test_a_disruption_budget_is_observed_and_the_restart_continues_later(
    cluster: WorkloadCluster,
) -> None:
    cluster.pods(JOB, cluster.workload(JOB, "train"))
    spec = {"minAvailable": 2, "selector": {"matchLabels": {JOB.pod_label: "train"}}}
    guard = {"metadata": {"name": "guard"}, "spec": spec}
    guards = f"/apis/policy/v1/namespaces/{TEAM}/poddisruptionbudgets"
    cluster.root.request("POST", guards, body=guard)
    cluster.isolate()
    assert cluster.look() == 1
    assert cluster.terminating() == set()
    cluster.root.request("DELETE", f"{guards}/guard")
    assert cluster.look() == 0
    assert cluster.terminating() == {"train-0", "train-1"}


def test_a_finished_and_a_suspended_workload_are_left(cluster: WorkloadCluster) -> None:
    patches: dict[str, dict[str, object]] = {
        "done": {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}},
        "paused": {"spec": {"runPolicy": {"suspend": True}}},
    }
    for name, patch in patches.items():
        cluster.pods(PYTORCH_JOB, cluster.workload(PYTORCH_JOB, name))
        path = PYTORCH_JOB.path(TEAM, name)
        cluster.patch(f"{path}/status" if "status" in patch else path, patch)
    cluster.isolate()
    assert cluster.look() == 0


FORBIDDEN = [
    Right("delete", "pods", namespace=TEAM),
    Right("patch", "pods", namespace=TEAM),
    Right("create", "pods", namespace=TEAM),
    Right("get", "pods", subresource="log", namespace=TEAM),
    Right("create", "pods", subresource="exec", namespace=TEAM),
    Right("get", "secrets", namespace=TEAM),
    Right("delete", "jobs", "batch", namespace=TEAM),
    Right("create", "pods", subresource="eviction", namespace=OTHERS),
    Right("list", "pods", namespace=OTHERS),
    Right("create", "pods", subresource="eviction", namespace="soperator"),
]

STOLEN = {
    "the program": {"spec": {"suspend": True}},
    "labels": {"metadata": {"labels": {OPT_IN: "false"}}},
    "an annotation of others": {"metadata": {"annotations": {"example.org/a": "x"}}},
    "an owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}]}},
    "a finalizer": {"metadata": {"finalizers": ["example.org/x"]}},
}  # fmt: skip


@pytest.mark.parametrize("right", FORBIDDEN, ids=str)
def test_the_bridge_has_no_other_right(cluster: WorkloadCluster, right: Right) -> None:
    assert not cluster.kube.may(right)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.name))
def test_the_bridges_token_changes_nothing_else_of_a_workload(
    cluster: WorkloadCluster, kind: Kind
) -> None:
    cluster.workload(kind, "train")
    path = kind.path(TEAM, "train")

    until_in_force(cluster.kube, path)
    for patch in STOLEN.values():
        with pytest.raises(KubeRefused, match=r"403: .*denied request: of a workload"):
            cluster.kube.request("PATCH", path, body=patch)
    cluster.kube.request("PATCH", path, body={"metadata": {"annotations": {RESTART: "{}"}}})


def test_a_missing_right_is_named_at_the_start(cluster: WorkloadCluster) -> None:
    require(cluster.kube, cluster.policy, "kubeconfig")
    both = BridgeConfig(
        kubeconfig=cluster.policy.kubeconfig,
        workloads=WorkloadSettings(namespaces=(TEAM, OTHERS)),
    )
    with pytest.raises(UsageError) as refused:
        require(cluster.kube, both, "kubeconfig")
    assert f"may not list pods in {OTHERS}" in str(refused.value)
    assert f"holdfast render workloads-rbac --set namespaces={TEAM},{OTHERS}" in str(refused.value)
