"""What a state of Slurm says in Kubernetes, and what is worth saying at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState as S
from holdfast.vocabulary import SlurmName
from k8s_bridge import conditions
from k8s_bridge.config import BridgeConfig, Join
from k8s_bridge.names import BUSY, DRAINED, READY, TAINT
from k8s_bridge.node_mapping import map_nodes
from k8s_bridge.ownership import Origin, Record
from k8s_bridge.plan import UpdateStatus, plan, plan_unreadable
from tests.unit.k8s_bridge.fake_cluster import AGENT, HUMAN, NOON, World

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
        ({S.IDLE, S.MAINTENANCE}, "True", "False", "False", "idle"),
        ({S.UNKNOWN}, "Unknown", "Unknown", "Unknown", "unknown"),
        ({S.FUTURE}, "Unknown", "Unknown", "Unknown", "future"),
    ],
)
def test_a_state_in_kubernetes_words(
    states: set[S], ready: str, drained: str, busy: str, label: str
) -> None:
    node = slurm(*states)
    said = {c.type: c.status for c in conditions.conditions(node)}
    assert said == {READY: ready, DRAINED: drained, BUSY: busy}
    assert conditions.label(node) == label


def test_a_hostile_reason_becomes_one_capped_line() -> None:
    node = slurm(S.IDLE, S.DRAIN, reason="a\nNodeName=x\x1b[31m " + "y" * 5000)
    node = replace(node, reason_user=HUMAN, reason_at=NOON)
    message = conditions.conditions(node)[1].message
    assert message.isprintable()
    assert len(message) <= 1024
    assert message.endswith(f"[{HUMAN} at 2026-11-20T12:00:00Z]")


def test_a_long_reason_in_any_script_is_told() -> None:
    """The API server counts bytes: an Event with more of them is refused."""
    world = World()
    world.settle(1)
    world.slurm.set_drain(W0, "Wartung " + "\u00fc" * 600, HUMAN)
    world.settle(1)
    told = world.view().conditions[DRAINED]
    assert told.status == "True"
    assert len(told.message.encode()) <= 1024
    assert told.message.startswith("Wartung \u00fc\u00fc")
    assert f"\u2026 [{HUMAN} at 2026-11-20T" in told.message
    assert [event["reason"] for event in world.kube.events.values()] == ["SlurmDrained"]


def test_an_event_that_is_refused_keeps_no_condition_back() -> None:
    world = World()
    world.settle(1)
    world.kube.refuses_events = True
    world.slurm.set_drain(W0, "a reason", HUMAN)
    world.settle(1)
    assert world.view().conditions[DRAINED].status == "True"
    assert world.plan() == []


def test_nothing_is_said_twice_and_a_transition_keeps_its_time() -> None:
    world = World()
    world.settle(1)
    assert world.plan() == []
    world.slurm.set_drain(W0, "one reason", HUMAN)
    world.settle(1)
    since = world.view().conditions[DRAINED].since
    world.wait(60)
    world.slurm.set_drain(W0, "another reason", HUMAN)
    world.settle(1)
    assert "another reason" in world.view().conditions[DRAINED].message
    assert world.view().conditions[DRAINED].since == since
    reasons = [event["reason"] for event in world.kube.events.values()]
    assert reasons == ["SlurmDrained"], "a changed message is no transition"


def test_first_sight_of_a_healthy_node_is_no_news_but_of_a_drained_one_is() -> None:
    world = World(2)
    world.slurm.set_drain(W1, "by hand", HUMAN)
    world.round()
    assert [e["regarding"]["name"] for e in world.kube.events.values()] == ["computeinstance-1"]


def test_an_event_told_before_a_crash_is_not_told_again() -> None:
    world = World()
    world.settle(1)
    world.slurm.set_drain(W0, "by hand", HUMAN)
    assert world.round_that_dies(0, before_last=False)
    assert len(world.kube.events) == 1
    assert world.view().conditions[DRAINED].status == "False", "died before the condition"
    world.wait(5)
    world.settle()
    assert world.view().conditions[DRAINED].status == "True"
    assert len(world.kube.events) == 1


def test_unreadable_slurm_makes_conditions_unknown_and_nothing_else() -> None:
    world = World()
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    world.settle()
    changes = plan_unreadable([world.view()], NOON + timedelta(minutes=1), "no answer")
    assert all(isinstance(change, UpdateStatus) for change in changes)
    world.apply(changes)
    assert {c.status for c in world.view().conditions.values()} == {"Unknown"}
    assert world.view().unschedulable
    assert world.view().taint == "XID79"
    events = len(world.kube.events)
    world.settle(1)
    assert world.view().conditions[DRAINED].status == "True"
    assert len(world.kube.events) == events + 1, "the drain is told again, being back"


def test_a_node_that_slurm_does_not_know_is_neither_gone_nor_drained() -> None:
    world = World()
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    world.settle()
    changes = plan([], [world.view()], world.policy, NOON)
    world.apply(changes)
    assert world.view().conditions[READY].reason == conditions.NOT_IN_SLURM
    assert world.view().unschedulable


def test_many_cordons_are_one_slurm_write() -> None:
    world = World(72)
    for i in range(72):
        world.kube.cordon(f"computeinstance-{i}", True)
    world.settle()
    assert len(world.slurm.drain_calls) == 1
    assert len(world.slurm.drain_calls[0]) == 72


def test_two_slurm_nodes_on_one_machine_are_left_alone() -> None:
    world = World()
    world.slurm.add("worker-0b", "computeinstance-0")
    joined = map_nodes(world.slurm.nodes(), world.kube.list_nodes()[0], world.policy)
    assert joined.ambiguous == ["computeinstance-0"]
    assert world.plan() == []


def test_join_by_table() -> None:
    policy = BridgeConfig(join=Join.TABLE, nodes={"worker-0": "computeinstance-1"})
    world = World(2, policy)
    joined = map_nodes(world.slurm.nodes(), world.kube.list_nodes()[0], policy)
    assert [(node.name, view.name) for node, view in joined.pairs] == [
        ("worker-0", "computeinstance-1")
    ]


def test_a_withheld_drain_says_why() -> None:
    world = World()
    world.slurm.note(W0, "ask Anna first", HUMAN)
    world.kube.cordon("computeinstance-0", True)
    world.settle()
    told = world.view().conditions[DRAINED]
    assert told.reason == "CordonNotFollowed"
    assert "ask Anna first" in told.message
    assert world.node().reason == "ask Anna first"


def test_a_cordon_from_before_the_fault_outlives_it() -> None:
    world = World(policy=BridgeConfig(drain_on_cordon=False))
    world.kube.cordon("computeinstance-0", True)
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    world.settle()
    record = world.view().record
    assert record == replace(Record.of(world.node(), Origin.SLURM), cordon=False, taint=True), (
        "the cordon is not claimed"
    )
    world.slurm.clear_drain(W0)
    world.settle()
    assert world.view().unschedulable
    assert world.view().taint is None


@pytest.mark.parametrize(
    "words", ["Not responding", "Node unexpectedly rebooted", "reboot issued : reboot timed out"]
)
def test_an_uncordon_gives_back_what_was_rebooted_while_cordoned(words: str) -> None:
    world = World()
    world.kube.cordon("computeinstance-0", True)
    world.settle()
    world.slurm.lose(W0, words)
    world.settle()
    world.kube.cordon("computeinstance-0", False)
    world.settle()
    assert not world.node().drained_flag


@pytest.mark.parametrize("states", [{S.MAINTENANCE, S.RESERVED}, {S.FAIL}])
def test_a_node_undrained_for_a_test_or_failed_by_a_person_stays_isolated_until_it_is_back(
    states: set[S],
) -> None:
    world = World()
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    world.settle()
    world.slurm.clear_drain(W0)
    tested = world.node()
    kept = replace(tested, states=tested.states | states)
    world.slurm.by_name[W0] = kept
    world.settle()
    assert world.view().unschedulable
    assert world.view().taint == "XID79"
    world.slurm.by_name[W0] = tested
    world.settle()
    assert not world.view().unschedulable
    assert world.view().taint is None


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_taint_of_a_person_beside_ours_is_theirs(when: str) -> None:
    """Kubernetes tells taints apart by key and effect; kubectl puts the newest first."""
    world = World()
    taints = world.kube.raw["computeinstance-0"]["spec"]["taints"]
    theirs = {"key": TAINT, "value": "burn-in", "effect": "NoExecute"}
    if when == "before":
        taints.insert(0, theirs)
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    world.settle()
    assert world.view().taint == "XID79"
    if when == "after":
        taints = world.kube.raw["computeinstance-0"]["spec"]["taints"]
        taints.insert(0, theirs)
    world.slurm.clear_drain(W0)
    world.settle()
    assert world.view().taint is None
    assert theirs in world.kube.raw["computeinstance-0"]["spec"]["taints"]


def test_our_taint_overwritten_by_a_person_is_theirs() -> None:
    world = World()
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    world.settle()
    taints = world.kube.raw["computeinstance-0"]["spec"]["taints"]
    next(taint for taint in taints if taint["key"] == TAINT)["value"] = "burn-in"
    world.settle()
    world.slurm.clear_drain(W0)
    world.settle()
    assert world.view().taint == "burn-in"


def test_a_record_edited_by_hand_proves_nothing() -> None:
    world = World()
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    world.settle()
    world.kube.raw["computeinstance-0"]["metadata"]["annotations"]["holdfast.dev/record"] = "{"
    world.slurm.clear_drain(W0)
    world.settle()
    assert world.view().unschedulable, "whose cordon it is cannot be proved: left"
    assert not world.node().drained_flag, "and our own mirror is no source"
