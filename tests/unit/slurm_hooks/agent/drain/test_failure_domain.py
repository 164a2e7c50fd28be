"""The agent's drain within the budget of its leaf switch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import Unavailable
from holdfast.policy.budget import Count
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.topology import Group
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.drain.messages import StepResult
from slurm_hooks.settings.sections import BudgetConfig
from tests.unit.slurm_hooks.agent.drain.fake_slurm import ME, Bench, fault

_OTHERS = tuple(f"other-{i}" for i in range(20))


@pytest.fixture
def leaf(bench: Bench) -> Bench:
    """The node and three others are on one leaf switch of a cluster with a budget of ten nodes."""
    bench.slurm.add(*_OTHERS)
    bench.slurm.leaves = [
        Group(name="leaf0", nodes=("worker-0", ME, "worker-2", "worker-3")),
        Group(name="leaf1", nodes=_OTHERS),
    ]
    budget = BudgetConfig(max_nodes=10, max_share=0)
    bench.config = replace(bench.config, node=replace(bench.config.node, budget=budget))
    return bench


def drained(bench: Bench, *names: str, code: str = "XID48") -> None:
    for name in names:
        bench.slurm._drain(name, f"holdfast:{code}: another boot=x", "root")


def test_half_of_a_leaf_switch_is_drained_and_no_more(leaf: Bench) -> None:
    drained(leaf, "worker-0", "worker-2")
    outcome = leaf.run(fault())
    assert not leaf.slurm.mine.drained_flag
    assert outcome.slurm_status.action == "over-budget"
    assert "2 of at most 2 nodes of topology=leaf0 are out of service" in outcome.slurm_status.why
    assert leaf.slurm.mine.comment.startswith("holdfast:XID79: over budget: ")
    leaf.slurm.undrain([SlurmName("worker-2")])
    leaf.run(fault())
    assert leaf.slurm.mine.drained_flag, "it opens by itself"


def test_nodes_of_other_switches_leave_it_its_room(leaf: Bench) -> None:
    drained(leaf, *_OTHERS[:5])
    assert leaf.run(fault()).slurm_status.drained


def test_most_nodes_with_one_fault_are_one_incident(leaf: Bench) -> None:
    drained(leaf, "worker-0", code="XID79")
    leaf.slurm.comment([SlurmName("worker-2")], "holdfast:XID79: over budget: GPU 1 fell off")
    outcome = leaf.run(fault())
    assert not leaf.slurm.mine.drained_flag
    assert "3 of 4 nodes of topology=leaf0 have XID79: one incident" in outcome.slurm_status.why
    leaf.slurm.comment([SlurmName("worker-2")], "")
    leaf.run(fault())
    assert leaf.slurm.mine.drained_flag


def test_of_agents_that_drain_at_once_those_beyond_the_switchs_part_withdraw(leaf: Bench) -> None:
    leaf.slurm.before_drain = ["worker-0", "worker-2"]
    leaf.run(fault())
    outcome = leaf.run(replace(fault(), recount=True))
    assert not leaf.slurm.mine.drained_flag
    assert outcome.slurm_status.action == "over-budget"


def test_a_topology_that_does_not_answer_leaves_the_clusters_budget(
    leaf: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs() -> list[Group]:
        raise Unavailable(["scontrol"], "no answer in 1 s")

    monkeypatch.setattr(leaf.slurm, "topology", hangs)
    drained(leaf, "worker-0", "worker-2", "worker-3")
    assert leaf.run(fault()).slurm_status.drained


@pytest.fixture
def reads(leaf: Bench, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often slurmctld was asked for the topology, and for all nodes."""
    found = {"topology": 0, "table": 0}
    topology, table = leaf.slurm.topology, leaf.slurm.nodes_fast

    def topology_read() -> list[Group]:
        found["topology"] += 1
        return topology()

    def table_read() -> list[SlurmNode]:
        found["table"] += 1
        return table()

    monkeypatch.setattr(leaf.slurm, "topology", topology_read)
    monkeypatch.setattr(leaf.slurm, "nodes_fast", table_read)
    return found


def stepped(bench: Bench, before: StepResult, count: Count) -> StepResult:
    """The next step of the same agent."""
    step = bench.step()
    step.known, step.looked, step.domain = before.node, before.looked, before.domain
    return step.run(replace(fault(), count=count), before.drained)


def test_a_storm_of_drains_reads_no_topology_and_the_table_once(
    leaf: Bench, reads: dict[str, int]
) -> None:
    """The topology is read at the agent's start. The number of changes proves nothing about one switch, so
    the table is read before the drain; after it that number is enough for the cluster, and the exact count
    follows within a minute."""
    large = BudgetConfig(max_nodes=1000, max_share=0)
    leaf.config = replace(leaf.config, node=replace(leaf.config.node, budget=large))
    count = Count(total=10_000, out=0, by_users=0, changes=0, since=1)
    at_start = leaf.run(replace(fault(), verdict=type(fault().verdict)()))
    assert reads == {"topology": 1, "table": 0}
    assert stepped(leaf, at_start, count).has_room
    assert leaf.slurm.mine.drained_flag
    assert reads == {"topology": 1, "table": 1}


def test_without_a_topology_a_storm_reads_no_table(leaf: Bench, reads: dict[str, int]) -> None:
    leaf.slurm.leaves = []
    large = BudgetConfig(max_nodes=1000, max_share=0)
    leaf.config = replace(leaf.config, node=replace(leaf.config.node, budget=large))
    count = Count(total=10_000, out=0, by_users=0, changes=0, since=1)
    at_start = leaf.run(replace(fault(), verdict=type(fault().verdict)()))
    assert stepped(leaf, at_start, count).slurm_status.drained
    assert reads == {"topology": 1, "table": 0}
