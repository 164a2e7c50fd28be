"""How a state of Slurm is shown in Kubernetes, and which changes are written."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState as S
from holdfast.vocabulary import SlurmName
from k8s_bridge.config import BridgeConfig, Join
from k8s_bridge.model.changes import UpdateStatus
from k8s_bridge.model.node_mapping import map_nodes
from k8s_bridge.model.ownership import BridgeRecord, Origin
from k8s_bridge.names import ALWAYS, BUSY, DRAINED, KEEP_CORDONED, READY, RECORD, TAINT
from k8s_bridge.planning import conditions
from k8s_bridge.planning.plan import plan, plan_unreadable
from tests.unit.k8s_bridge.fake_cluster import AGENT, HUMAN, NOON, FakeCluster

W0, W1 = SlurmName("worker-0"), SlurmName("worker-1")


def slurm(*states: S, reason: str = "") -> SlurmNode:
    return SlurmNode(name=W0, states=frozenset(states), reason=reason, instance_id="c0")


@pytest.mark.parametrize(
    ("states", "ready", "drained", "busy", "label"),
    [
        ({S.IDLE}, "True", "False", "False", "idle"),
        ({S.MIXED}, "True", "False", "True", "mixed"),
        ({S.ALLOCATED, S.DRAIN}, "True", "True", "True", "draining"),
        ({S.IDLE, S.DRAIN}, "True", "True", "False", "drained"),
        ({S.IDLE, S.DRAIN, S.UNDRAIN}, "True", "False", "False", "idle"),
        ({S.IDLE, S.COMPLETING}, "True", "False", "True", "completing"),
        ({S.IDLE, S.NOT_RESPONDING}, "Unknown", "False", "False", "idle"),
        ({S.DOWN, S.NOT_RESPONDING}, "False", "False", "False", "down"),
        ({S.DOWN, S.DRAIN}, "False", "True", "False", "down"),
        ({S.IDLE, S.INVALID_REG}, "False", "False", "False", "idle"),
        ({S.IDLE, S.CLOUD, S.POWERED_DOWN}, "False", "False", "False", "powered-down"),
        ({S.DOWN, S.REBOOT_ISSUED}, "False", "False", "False", "rebooting"),
        ({S.IDLE, S.MAINTENANCE}, "True", "False", "False", "maint"),
        ({S.UNKNOWN}, "Unknown", "Unknown", "Unknown", "unknown"),
        ({S.FUTURE}, "Unknown", "Unknown", "Unknown", "future"),
    ],
)
def test_a_state_as_conditions_and_label(
    states: set[S], ready: str, drained: str, busy: str, label: str
) -> None:
    node = slurm(*states)
    statuses = {c.type: c.status for c in conditions.conditions(node) if c.type in ALWAYS}
    assert statuses == {READY: ready, DRAINED: drained, BUSY: busy}
    assert conditions.label(node) == label


def test_a_hostile_reason_becomes_one_cut_line() -> None:
    node = slurm(S.IDLE, S.DRAIN, reason="a\nNodeName=x\x1b[31m " + "y" * 5000)
    node = replace(node, reason_user=HUMAN, reason_at=NOON)
    message = conditions.conditions(node)[1].message
    assert message.isprintable()
    assert len(message) <= 1024
    assert message.endswith(f"[{HUMAN} at 2026-11-20T12:00:00Z]")


def test_a_long_reason_in_any_script_is_shown() -> None:
    """The API server counts bytes: a longer Event is rejected."""
    cluster = FakeCluster()
    cluster.settle(1)
    cluster.slurm.set_drain(W0, "Wartung " + "\u00fc" * 600, HUMAN)
    cluster.settle(1)
    condition = cluster.view().conditions[DRAINED]
    assert condition.status == "True"
    assert len(condition.message.encode()) <= 1024
    assert condition.message.startswith("Wartung \u00fc\u00fc")
    assert f"\u2026 [{HUMAN} at 2026-11-20T" in condition.message
    assert [event["reason"] for event in cluster.kube.events.values()] == ["SlurmDrained"]


def test_a_rejected_event_does_not_prevent_the_conditions() -> None:
    cluster = FakeCluster()
    cluster.settle(1)
    cluster.kube.refuses_events = True
    cluster.slurm.set_drain(W0, "a reason", HUMAN)
    cluster.settle(1)
    assert cluster.view().conditions[DRAINED].status == "True"
    assert cluster.plan() == []


def test_nothing_is_written_twice_and_a_transition_keeps_its_time() -> None:
    cluster = FakeCluster()
    cluster.settle(1)
    assert cluster.plan() == []
    cluster.slurm.set_drain(W0, "one reason", HUMAN)
    cluster.settle(1)
    since = cluster.view().conditions[DRAINED].since
    cluster.wait(60)
    cluster.slurm.set_drain(W0, "another reason", HUMAN)
    cluster.settle(1)
    assert "another reason" in cluster.view().conditions[DRAINED].message
    assert cluster.view().conditions[DRAINED].since == since
    reasons = [event["reason"] for event in cluster.kube.events.values()]
    assert reasons == ["SlurmDrained"], "a changed message is no transition"


def test_a_new_node_creates_an_event_only_if_it_is_drained() -> None:
    cluster = FakeCluster(2)
    cluster.slurm.set_drain(W1, "by hand", HUMAN)
    cluster.round()
    assert [e["regarding"]["name"] for e in cluster.kube.events.values()] == ["computeinstance-1"]


def test_an_event_created_before_a_crash_is_not_created_again() -> None:
    cluster = FakeCluster()
    cluster.settle(1)
    cluster.slurm.set_drain(W0, "by hand", HUMAN)
    assert cluster.round_that_is_killed(0, before_last=False)
    assert len(cluster.kube.events) == 1
    assert cluster.view().conditions[DRAINED].status == "False", "died before the condition"
    cluster.wait(5)
    cluster.settle()
    assert cluster.view().conditions[DRAINED].status == "True"
    assert len(cluster.kube.events) == 1


def test_unreadable_slurm_makes_conditions_unknown_and_nothing_else() -> None:
    cluster = FakeCluster()
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    changes = plan_unreadable([cluster.view()], NOON + timedelta(minutes=1), "no answer")
    assert all(isinstance(change, UpdateStatus) for change in changes)
    cluster.apply(changes)
    assert {c.status for c in cluster.view().conditions.values()} == {"Unknown"}
    assert cluster.view().unschedulable
    assert cluster.view().taint == "XID79"
    events = len(cluster.kube.events)
    cluster.settle(1)
    assert cluster.view().conditions[DRAINED].status == "True"
    assert len(cluster.kube.events) == events + 1, "the drain creates an Event again"


def test_a_node_that_slurm_does_not_know_is_neither_gone_nor_drained() -> None:
    cluster = FakeCluster()
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    changes = plan([], [cluster.view()], cluster.policy, NOON)
    cluster.apply(changes)
    assert cluster.view().conditions[READY].reason == conditions.NOT_IN_SLURM
    assert cluster.view().unschedulable


def test_many_cordons_are_one_slurm_write() -> None:
    cluster = FakeCluster(72)
    for i in range(72):
        cluster.kube.cordon(f"computeinstance-{i}", True)
    cluster.settle()
    assert len(cluster.slurm.drain_calls) == 1
    assert len(cluster.slurm.drain_calls[0]) == 72


def test_two_slurm_nodes_on_one_machine_are_left_alone() -> None:
    cluster = FakeCluster()
    cluster.slurm.add("worker-0b", "computeinstance-0")
    joined = map_nodes(cluster.slurm.nodes(), cluster.kube.list_nodes()[0], cluster.policy)
    assert joined.ambiguous == ["computeinstance-0"]
    assert cluster.plan() == []


def test_join_by_table() -> None:
    policy = BridgeConfig(join=Join.TABLE, nodes={"worker-0": "computeinstance-1"})
    cluster = FakeCluster(2, policy)
    joined = map_nodes(cluster.slurm.nodes(), cluster.kube.list_nodes()[0], policy)
    assert [(node.name, view.name) for node, view in joined.pairs] == [
        ("worker-0", "computeinstance-1")
    ]


def test_a_cordon_without_a_drain_shows_why() -> None:
    cluster = FakeCluster()
    cluster.slurm.note(W0, "ask Anna first", HUMAN)
    cluster.kube.cordon("computeinstance-0", True)
    cluster.settle()
    condition = cluster.view().conditions[DRAINED]
    assert condition.reason == "CordonNotFollowed"
    assert "ask Anna first" in condition.message
    assert cluster.node().reason == "ask Anna first"


def test_a_cordon_from_before_the_fault_outlives_it() -> None:
    cluster = FakeCluster(policy=BridgeConfig(drain_on_cordon=False))
    cluster.kube.cordon("computeinstance-0", True)
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    record = cluster.view().record
    assert record == replace(
        BridgeRecord.of(cluster.node(), Origin.SLURM), cordon=False, taint=True
    ), "the cordon is not claimed"
    cluster.slurm.clear_drain(W0)
    cluster.settle()
    assert cluster.view().unschedulable
    assert cluster.view().taint is None


@pytest.mark.parametrize(
    "words", ["Not responding", "Node unexpectedly rebooted", "reboot issued : reboot timed out"]
)
def test_an_uncordon_returns_a_node_that_was_rebooted_while_cordoned(words: str) -> None:
    cluster = FakeCluster()
    cluster.kube.cordon("computeinstance-0", True)
    cluster.settle()
    cluster.slurm.lose(W0, words)
    cluster.settle()
    cluster.kube.cordon("computeinstance-0", False)
    cluster.settle()
    assert not cluster.node().drained_flag


@pytest.mark.parametrize("states", [{S.MAINTENANCE, S.RESERVED}, {S.FAIL}])
def test_a_node_undrained_for_a_test_or_failed_by_a_person_stays_isolated_until_it_is_back(
    states: set[S],
) -> None:
    cluster = FakeCluster()
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    cluster.slurm.clear_drain(W0)
    tested = cluster.node()
    kept = replace(tested, states=tested.states | states)
    cluster.slurm.by_name[W0] = kept
    cluster.settle()
    assert cluster.view().unschedulable
    assert cluster.view().taint == "XID79"
    cluster.slurm.by_name[W0] = tested
    cluster.settle()
    assert not cluster.view().unschedulable
    assert cluster.view().taint is None


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_persons_taint_with_another_effect_is_kept(when: str) -> None:
    """Kubernetes identifies taints by key and effect; kubectl adds the newest first."""
    cluster = FakeCluster()
    taints = cluster.kube.raw["computeinstance-0"]["spec"]["taints"]
    theirs = {"key": TAINT, "value": "burn-in", "effect": "NoExecute"}
    if when == "before":
        taints.insert(0, theirs)
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    assert cluster.view().taint == "XID79"
    if when == "after":
        taints = cluster.kube.raw["computeinstance-0"]["spec"]["taints"]
        taints.insert(0, theirs)
    cluster.slurm.clear_drain(W0)
    cluster.settle()
    assert cluster.view().taint is None
    assert theirs in cluster.kube.raw["computeinstance-0"]["spec"]["taints"]


def test_our_taint_overwritten_by_a_person_is_theirs() -> None:
    cluster = FakeCluster()
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    cluster.kube.retaint("computeinstance-0", "burn-in")
    cluster.settle()
    cluster.slurm.clear_drain(W0)
    cluster.settle()
    assert cluster.view().taint == "burn-in"


def test_a_broken_record_without_field_managers_proves_nothing() -> None:
    cluster = FakeCluster(tracked=False)
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    cluster.kube.annotate("computeinstance-0", RECORD, "{")
    cluster.slurm.clear_drain(W0)
    cluster.settle()
    assert cluster.view().unschedulable, (
        "whose cordon it is cannot be proved: it counts as a person's"
    )


def test_a_lost_record_does_not_keep_a_node_isolated() -> None:
    """Defect 3 of the scale test: cordon and taint stayed for ever, without a word."""
    for value in (None, "broken"):
        cluster = FakeCluster()
        cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
        cluster.settle()
        cluster.kube.annotate("computeinstance-0", RECORD, value)
        cluster.slurm.clear_drain(W0)
        cluster.settle()
        assert (cluster.view().unschedulable, cluster.view().taint) == (False, None)


def test_a_lost_record_is_written_again_while_the_drain_stands() -> None:
    cluster = FakeCluster()
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    before = cluster.view().record
    cluster.kube.annotate("computeinstance-0", RECORD, None)
    cluster.settle()
    assert cluster.view().record == before


def test_a_cordon_that_a_person_marked_survives_the_end_of_ours() -> None:
    """Defect 5 of the scale test: ``kubectl cordon`` on top of ours says "already cordoned" and was lost."""
    cluster = FakeCluster()
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    cluster.kube.annotate("computeinstance-0", KEEP_CORDONED, "anna: new cables")
    cluster.settle()
    cluster.slurm.clear_drain(W0)
    cluster.settle(3)
    assert cluster.view().unschedulable
    assert cluster.view().taint is None
    assert cluster.node().drained_flag, "a cordon by a person is followed by a drain"
    cluster.kube.cordon("computeinstance-0", False)
    cluster.kube.annotate("computeinstance-0", KEEP_CORDONED, None)
    cluster.settle()
    assert not cluster.node().drained_flag


def test_power_saving_is_no_event() -> None:
    """Defect 9 of the scale test: a powered-down node at first sight was a warning."""
    cluster = FakeCluster()
    cluster.slurm.set_state(W0, "IDLE", "POWERED_DOWN")
    cluster.settle()
    assert cluster.view().conditions[READY].status == "False"
    assert cluster.kube.events == {}
    cluster.slurm.set_state(W0, "DOWN")
    cluster.settle()
    assert [event["reason"] for event in cluster.kube.events.values()] == []
