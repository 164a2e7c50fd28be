"""``holdfast bridge --plan`` and ``--node``: names of both sides, and the kill switch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.vocabulary import SlurmName
from k8s_bridge import show
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.disruption import Disruption
from k8s_bridge.model.ownership import rule_reason
from k8s_bridge.rules.rule import RuleMode
from k8s_bridge.rules.settings import BridgeBudget, RuleSettings
from tests.unit.k8s_bridge.fake_cluster import AGENT, FakeCluster

W0 = SlurmName("worker-0")


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster(3)
    found.settle()
    return found


def looked(cluster: FakeCluster, folder: Path) -> show.Look:
    return show.look(cluster.slurm, cluster.kube, cluster.policy, folder / "holdfast.yaml")


def planned(
    cluster: FakeCluster, folder: Path, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    status = show.show_plan(looked(cluster, folder), as_json=True)
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert status == (1 if rows else 0)
    return rows


def test_a_consistent_cluster_has_no_changes_and_says_how_many_nodes_were_compared(
    cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(cluster, tmp_path, capsys) == []
    assert show.show_plan(looked(cluster, tmp_path), as_json=False) == 0
    assert capsys.readouterr().out == (
        "Slurm and Kubernetes are consistent: no changes "
        "(3 Slurm nodes, 3 Kubernetes Nodes, 3 of them mapped)\n"
    )


def test_rows_name_both_sides_and_what_a_kill_switch_stops(
    cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    rows = planned(cluster, tmp_path, capsys)
    assert [(r["node"], r["slurm"], r["change"], r["blocked_by_kill_switch"]) for r in rows] == [
        ("computeinstance-0", "worker-0", "Isolate", False),
        ("computeinstance-0", "worker-0", "UpdateStatus", False),
    ]
    (tmp_path / "off").mkdir()
    (tmp_path / "off" / "bridge").touch()
    assert [row["blocked_by_kill_switch"] for row in planned(cluster, tmp_path, capsys)] == [
        True,
        False,
    ]
    show.show_plan(looked(cluster, tmp_path), as_json=False)
    first, isolate, _, last = capsys.readouterr().out.splitlines()
    assert f"kill switch {tmp_path}/off/bridge is on" in first
    assert isolate.startswith("computeinstance-0 (worker-0): Isolate cordon=True taint=XID79")
    assert isolate.endswith("[blocked by the kill switch]")
    assert last.startswith("2 changes for 1 node, 1 blocked by the kill switch")


def test_the_plan_of_a_worker_that_moved_is_that_of_the_bridge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = FakeCluster()
    cluster.kube.add("computeinstance-new")
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    moved = replace(cluster.slurm.by_name[W0], instance_id="computeinstance-new")
    cluster.slurm.by_name[W0] = moved
    cluster.settle()
    assert planned(cluster, tmp_path, capsys) == []
    cluster.slurm.clear_drain(W0)
    rows = planned(cluster, tmp_path, capsys)
    assert ("computeinstance-0", "Release") in [(row["node"], row["change"]) for row in rows]


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_rule_that_holds_keeps_its_drain_and_an_incident_drains_nothing(
    tmp_path: Path, nodes: int
) -> None:
    rules = (RuleSettings(use="nebius-gpu-error", mode=RuleMode.DRAIN, hold_s=0),)
    cluster = FakeCluster(3, BridgeConfig(rules=rules))
    for i in range(nodes):
        cluster.kube.raw[f"computeinstance-{i}"]["status"]["conditions"].append(
            {"type": "NebiusGPUError", "status": "True"}
        )

    def changes() -> list[str]:
        report = show.node_report(looked(cluster, tmp_path), "worker-0")
        assert report is not None
        return [row["change"] for row in report["changes"] if row["change"] != "UpdateStatus"]

    if nodes == 3:
        assert changes() == [], "an incident of the cluster"
        return
    assert changes() == ["DrainInSlurm"]
    cluster.slurm.drain([W0], rule_reason("nebius-gpu-error", cluster.clock.now))
    assert changes() == ["WriteRecord"], "and no undrain"


def test_a_worker_pod_that_ends_and_the_switches_are_in_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = (RuleSettings(use="worker-pod-disrupted", mode=RuleMode.DRAIN),)
    limits = BridgeBudget(max_nodes=9, incident_share=1, domain_share=0.5)
    cluster = FakeCluster(
        3, BridgeConfig(worker_pods_namespace="slurm", rules=rules, budget=limits)
    )
    cluster.settle()
    ends = Disruption(reason="PreemptionByScheduler", since=1.0, until=301.0)
    names = [SlurmName(f"worker-{i}") for i in range(3)]
    look = looked(cluster, tmp_path)._replace(
        pods=dict.fromkeys(names[:2], ends), domains=dict.fromkeys(names, "leaf0")
    )
    assert show.show_plan(look, as_json=True) == 1
    rows = json.loads(capsys.readouterr().out)
    drains = [(r["slurm"], r["rule"], r["until"]) for r in rows if r["change"] == "DrainInSlurm"]
    assert drains == [("worker-0", "worker-pod-disrupted", 300)], "half of leaf0 is one node"


@pytest.mark.parametrize("name", ["worker-0", "computeinstance-0"])
def test_one_node_by_either_name(cluster: FakeCluster, tmp_path: Path, name: str) -> None:
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    report = show.node_report(looked(cluster, tmp_path), name)
    assert report is not None
    assert (report["slurm"], report["kubernetes"]) == ("worker-0", "computeinstance-0")
    assert report["cordoned_by"] == "holdfast-bridge"
    assert report["taint"] == "XID79"
    assert report["changes"] == []
    assert "removes its cordon and taint when the drain in Slurm ends" in report["how_to_uncordon"]
    assert {each["type"]: each["status"] for each in report["conditions"]} == {
        "HoldfastSlurmBusy": "False",
        "HoldfastSlurmDrained": "True",
        "HoldfastSlurmReady": "True",
    }


def test_a_persons_cordon_is_named_with_what_ends_it(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.kube.cordon("computeinstance-1", True)
    report = show.node_report(looked(cluster, tmp_path), "worker-1")
    assert report is not None
    assert report["cordoned_by"] == "kubectl-cordon"
    assert [row["change"] for row in report["changes"]] == ["DrainInSlurm"]
    assert report["how_to_uncordon"].startswith(
        "kubectl uncordon computeinstance-1 ends the cordon"
    )


def test_the_name_in_slurm(cluster: FakeCluster, tmp_path: Path) -> None:
    look = looked(cluster, tmp_path)
    names = ("worker-1", "computeinstance-1", "else")
    assert [show.slurm_name(look, name) for name in names] == ["worker-1", "worker-1", ""]


def test_a_name_that_nobody_knows_and_a_node_without_its_node(
    cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = looked(cluster, tmp_path)
    assert show.show_node(found, "nobody", as_json=False) == 1
    assert "neither Slurm nor Kubernetes knows a node nobody" in capsys.readouterr().err
    del cluster.kube.raw["computeinstance-2"]
    assert show.show_node(found, "worker-2", as_json=False) == 0
    assert "Node computeinstance-2 does not exist" in capsys.readouterr().out
