"""Every state of Slurm as conditions and label, and the isolation that policy asks for."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.load import load_section
from holdfast.errors import ConfigError
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState as S
from holdfast.vocabulary import SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.changes import UpdateStatus
from k8s_bridge.names import (
    ALWAYS,
    BUSY,
    CONDITIONS,
    MAINTENANCE,
    POWER_SAVING,
    READY,
    REBOOTING,
    WHEN_TRUE,
)
from k8s_bridge.planning import conditions
from k8s_bridge.state_table import ISOLATABLE, TABLE, Isolation
from tests.unit.k8s_bridge.fake_cluster import AGENT, HUMAN, FakeCluster

W0 = SlurmName("worker-0")
BASES = (S.UNKNOWN, S.DOWN, S.IDLE, S.ALLOCATED, S.ERROR, S.MIXED, S.FUTURE)


def test_each_state_has_one_row_and_each_condition_a_row_that_sets_it() -> None:
    assert sorted(row.state for row in TABLE) == sorted(S)
    shown = {shown.condition for row in TABLE for shown in row.shown}
    assert shown == set(CONDITIONS)


@pytest.mark.parametrize(
    ("states", "condition", "status", "reason", "label"),
    [
        ({S.IDLE, S.PLANNED}, BUSY, "False", "Free", "idle"),
        ({S.IDLE, S.RESERVED}, READY, "True", "Reserved", "reserved"),
        ({S.MIXED, S.RESERVED}, READY, "True", "Reserved", "mixed"),
        ({S.IDLE, S.MAINTENANCE, S.RESERVED}, READY, "True", "Maintenance", "maint"),
        ({S.IDLE, S.MAINTENANCE, S.RESERVED}, MAINTENANCE, "True", "Reserved", "maint"),
        ({S.MIXED, S.REBOOT_REQUESTED, S.DRAIN}, REBOOTING, "True", "Requested", "draining"),
        ({S.DOWN, S.REBOOT_ISSUED}, REBOOTING, "True", "Issued", "rebooting"),
        ({S.IDLE, S.REBOOT_CANCELED}, REBOOTING, "False", "NotRequested", "idle"),
        ({S.IDLE, S.BLOCKED}, BUSY, "True", "Blocked", "blocked"),
        ({S.ALLOCATED, S.BLOCKED}, BUSY, "True", "Allocated", "allocated"),
        ({S.IDLE, S.CLOUD, S.POWERED_DOWN}, POWER_SAVING, "True", "PoweredDown", "powered-down"),
        ({S.IDLE, S.CLOUD, S.POWERING_UP}, POWER_SAVING, "True", "PoweringUp", "powering-up"),
        ({S.MIXED, S.POWER_DRAIN}, POWER_SAVING, "True", "PowerDrain", "mixed"),
        ({S.MIXED, S.POWER_DOWN}, POWER_SAVING, "True", "PowerDownRequested", "mixed"),
        ({S.IDLE, S.POWER_UP}, POWER_SAVING, "True", "PowerUpRequested", "idle"),
        ({S.IDLE, S.EXTERNAL, S.NOT_RESPONDING}, READY, "True", "Responding", "idle"),
        ({S.IDLE, S.DYNAMIC_NORM}, READY, "True", "Responding", "idle"),
    ],
    ids=lambda value: "+".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_a_state_as_a_condition(
    states: set[S], condition: str, status: str, reason: str, label: str
) -> None:
    node = SlurmNode(name=W0, states=frozenset(states))
    (found,) = [c for c in conditions.conditions(node) if c.type == condition]
    assert (found.status, found.reason, conditions.label(node)) == (status, reason, label)


def test_planned_is_shown_only_where_asked_for_and_causes_no_write_otherwise() -> None:
    node = SlurmNode(name=W0, states=frozenset({S.IDLE, S.PLANNED}))
    without = replace(node, states=frozenset({S.IDLE}))
    assert conditions.conditions(node) == conditions.conditions(without)
    shown = conditions.conditions(node, show_planned=True)
    assert (shown[2].status, shown[2].reason) == ("False", "Planned")


def test_a_condition_that_was_never_true_is_not_written() -> None:
    cluster = FakeCluster()
    cluster.settle(1)
    assert set(cluster.view().conditions) == set(ALWAYS)
    set_states(cluster, S.IDLE, S.MAINTENANCE)
    cluster.settle(1)
    assert set(cluster.view().conditions) == {*ALWAYS, MAINTENANCE}
    set_states(cluster, S.IDLE)
    cluster.settle(1)
    assert cluster.view().conditions[MAINTENANCE].status == "False"


@given(st.sampled_from(BASES), st.frozensets(st.sampled_from(sorted(set(S) - set(BASES)))))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_combination_gives_every_condition_once_and_one_label(
    base: S, flags: frozenset[S]
) -> None:
    node = SlurmNode(name=W0, states=flags | {base})
    found = conditions.conditions(node)
    assert [c.type for c in found] == list(CONDITIONS)
    assert {c.status for c in found} <= {"True", "False", "Unknown"}
    assert all(c.reason.isalnum() and c.message for c in found)
    label = conditions.label(node)
    assert label.replace("-", "").isalpha()
    busy = next(c for c in found if c.type == BUSY)
    assert busy.status in ("Unknown", str(node.busy))


def set_states(cluster: FakeCluster, *states: S) -> None:
    cluster.slurm.by_name[W0] = replace(cluster.slurm.by_name[W0], states=frozenset(states))


def isolating(**states: Isolation) -> FakeCluster:
    return FakeCluster(policy=BridgeConfig(isolate=states))


@pytest.mark.parametrize(
    ("wanted", "cordoned"), [(Isolation.TAINT, False), (Isolation.CORDON, True)]
)
def test_policy_isolates_a_node_that_is_down_and_releases_it(
    wanted: Isolation, cordoned: bool
) -> None:
    cluster = isolating(DOWN=wanted)
    set_states(cluster, S.DOWN, S.NOT_RESPONDING)
    cluster.settle()
    assert (cluster.view().taint, cluster.view().unschedulable) == ("DOWN", cordoned)
    set_states(cluster, S.IDLE)
    cluster.settle()
    assert (cluster.view().taint, cluster.view().unschedulable) == (None, False)
    assert cluster.view().record is None


def test_without_policy_no_state_isolates() -> None:
    for state in S:
        cluster = FakeCluster()
        set_states(cluster, S.IDLE, state)
        cluster.settle()
        assert (cluster.view().taint, cluster.view().unschedulable) == (None, False)


def test_a_persons_drain_is_isolated_only_by_policy_and_never_ended() -> None:
    cluster = isolating(DRAIN=Isolation.CORDON)
    cluster.slurm.set_drain(W0, "fan", HUMAN)
    cluster.settle()
    assert (cluster.view().taint, cluster.view().unschedulable) == ("DRAIN", True)
    assert (cluster.node().drained_flag, cluster.node().reason) == (True, "fan")
    cluster.slurm.clear_drain(W0)
    cluster.settle()
    assert (cluster.view().taint, cluster.view().unschedulable) == (None, False)


def test_the_bridges_own_drain_is_never_isolated() -> None:
    cluster = isolating(DRAIN=Isolation.CORDON)
    cluster.kube.cordon("computeinstance-0", True)
    cluster.settle()
    assert cluster.node().drained_flag
    assert cluster.view().taint is None


def test_a_person_uncordons_a_node_that_policy_isolates_and_it_stays_so() -> None:
    cluster = isolating(DOWN=Isolation.CORDON)
    set_states(cluster, S.DOWN)
    cluster.settle()
    cluster.kube.cordon("computeinstance-0", False)
    cluster.settle()
    assert not cluster.view().unschedulable
    assert cluster.view().taint == "DOWN"


def test_a_person_who_undrained_a_cordoned_node_is_heeded_after_it_was_down() -> None:
    cluster = isolating(DOWN=Isolation.CORDON)
    cluster.kube.cordon("computeinstance-0", True)
    cluster.settle()
    cluster.slurm.clear_drain(W0)
    cluster.settle()
    for states in ({S.DOWN}, {S.IDLE}):
        set_states(cluster, *states)
        cluster.settle()
    assert not cluster.node().drained_flag


def test_a_fault_and_then_a_state_isolate_one_after_the_other() -> None:
    cluster = isolating(DOWN=Isolation.TAINT)
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.settle()
    assert cluster.view().taint == "XID79"
    cluster.slurm.clear_drain(W0)
    set_states(cluster, S.DOWN)
    cluster.settle(3)
    assert (cluster.view().taint, cluster.view().unschedulable) == ("DOWN", False)


@pytest.mark.parametrize(
    ("first", "then"), list(itertools.permutations(["DOWN", "REBOOT_ISSUED", "INVALID_REG"], 2))
)
def test_any_change_of_states_settles(first: str, then: str) -> None:
    cluster = FakeCluster(policy=BridgeConfig(isolate=dict.fromkeys(ISOLATABLE, Isolation.CORDON)))
    for state in (first, then):
        set_states(cluster, S.IDLE, S(state))
        cluster.settle(3)
        assert cluster.view().taint == state
    set_states(cluster, S.IDLE)
    cluster.settle(3)
    assert cluster.view().record is None


def test_bad_policy_is_one_line_with_file_line_value_and_remedy(tmp_path: object) -> None:
    file = tmp_path / "h.yaml"  # type: ignore[operator]
    file.write_text("bridge:\n  poll_s: 2\n  isolate: {IDEL: taint, DOWN: taint}\n")
    with pytest.raises(ConfigError) as error:
        load_section(file, "bridge", BridgeConfig)
    (line,) = str(error.value).splitlines()
    assert f"{file}:3: bridge.isolate: must name states that keep a node out of service" in line
    assert "got 'IDEL'" in line
    file.write_text("bridge: {isolate: {IDLE: cordon}}\n")
    with pytest.raises(ConfigError, match="'IDLE' is in service"):
        load_section(file, "bridge", BridgeConfig)


def test_only_changes_of_state_are_written() -> None:
    cluster = FakeCluster()
    cluster.settle(1)
    for state in WHEN_TRUE:
        assert state not in cluster.view().conditions
    set_states(cluster, S.IDLE, S.RESERVED)
    (change,) = cluster.plan()
    assert isinstance(change, UpdateStatus)
    assert [c.type for c in change.conditions] == [READY]
    assert change.label == "reserved"
