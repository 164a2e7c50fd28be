"""Failure domains: many nodes of one switch are one incident, and each domain has its part of the budget."""

from __future__ import annotations

from typing import Any

from holdfast.vocabulary import SlurmName
from k8s_bridge.names import DRAINED
from k8s_bridge.rules.settings import BridgeBudget
from tests.unit.k8s_bridge.fake_cluster import AGENT
from tests.unit.k8s_bridge.planning.fake_rule_cluster import GPU, RuleCluster, draining

RACK = "topology.example.org/rack"


def switches(size: int = 4, nodes: int = 16, **limits: Any) -> RuleCluster:
    """A cluster whose leaf switches have ``size`` nodes each."""
    budget = BridgeBudget(max_nodes=10, max_share=0, **limits)
    cluster = RuleCluster(draining("nebius-gpu-error", clear_s=0), nodes=nodes, budget=budget)
    cluster.domains = {SlurmName(f"worker-{i}"): f"leaf{i // size}" for i in range(nodes)}
    return cluster


def test_most_nodes_of_one_leaf_switch_are_one_incident() -> None:
    cluster = switches()
    for i in (4, 5, 6, 12):
        cluster.show(GPU, "True", i, ago_s=60)
    cluster.settle()
    assert cluster.drained() == ["worker-12"]
    assert cluster.signals.notices() == [
        "rules match 3 of 4 nodes of topology=leaf1: one incident (a switch, a filesystem, power?); none "
        "of them is drained"
    ]
    cluster.show(GPU, "False", 4)
    cluster.passes(10)
    assert "worker-5" in cluster.drained(), "it opens by itself"


def test_a_label_goes_before_slurms_topology() -> None:
    cluster = switches(domain_label=RACK)
    for i in range(16):
        cluster.label(RACK, f"r{i % 4}", i)
    for i in (4, 5, 6):
        cluster.show(GPU, "True", i, ago_s=60)
    cluster.settle()
    assert len(cluster.drained()) == 3, "each in another rack"


def test_each_domain_has_its_part_of_the_budget() -> None:
    cluster = switches(size=8, incident_share=1)
    cluster.slurm.set_drain(SlurmName("worker-7"), "holdfast:XID79: x", AGENT)
    for i in range(5):
        cluster.show(GPU, "True", i, ago_s=60 - i)
    cluster.show(GPU, "True", 9, ago_s=60)
    cluster.settle(3)
    drained = ["worker-0", "worker-1", "worker-2", "worker-7", "worker-9"]
    assert cluster.drained() == drained, "half of leaf0, the agent's drain among them"
    shown = cluster.view(3).conditions[DRAINED]
    assert "the budget of topology=leaf0 is spent (bridge.budget.domain_share)" in shown.message
    cluster.slurm.clear_drain(SlurmName("worker-7"))
    cluster.settle()
    assert "worker-3" in cluster.drained(), "it opens by itself"


def test_one_node_of_a_small_domain_may_leave_and_nodes_without_a_domain_are_free() -> None:
    cluster = switches(size=2, nodes=8, domain_share=0.1, incident_share=1)
    del cluster.domains[SlurmName("worker-6")], cluster.domains[SlurmName("worker-7")]
    for i in (0, 1, 6, 7):
        cluster.show(GPU, "True", i, ago_s=60 - i)
    cluster.settle(3)
    assert cluster.drained() == ["worker-0", "worker-6", "worker-7"]
