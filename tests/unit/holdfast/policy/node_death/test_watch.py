"""The decision, node by node; random disturbances are in tests/unit/property."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.policy.node_death.heartbeat import SETTLED, UNKNOWN, Heartbeat, Round
from holdfast.policy.node_death.watch import Watch
from holdfast.vocabulary import SlurmName
from tests.unit.property.silent_cluster import FOUND_S, SilentCluster

X = SlurmName("worker-2")


@pytest.fixture
def cluster() -> SilentCluster:
    made = SilentCluster(7, 5)
    made.run(10)
    return made


def test_a_power_loss_is_found_and_told_to_slurm_once(cluster: SilentCluster) -> None:
    cluster.power_off(X)
    cluster.run(10 + FOUND_S)
    assert set(cluster.down) == {X}
    assert 11.5 <= cluster.down[X] <= 10 + FOUND_S
    cluster.run(60)
    assert sum("sets worker-2 DOWN" in line for line in cluster.history) == 1


def test_a_second_power_loss_is_found_after_the_first(cluster: SilentCluster) -> None:
    cluster.power_off(X)
    cluster.run(15)
    cluster.power_off(SlurmName("worker-4"))
    cluster.run(15 + FOUND_S)
    assert set(cluster.down) == {X, "worker-4"}


def test_two_at_once_are_an_incident(cluster: SilentCluster) -> None:
    cluster.power_off(X)
    cluster.power_off(SlurmName("worker-3"))
    cluster.run(60)
    assert not cluster.down


@pytest.mark.parametrize("for_s", [1.4, 30.0, 300.0])
def test_an_agent_that_stands_still_is_no_dead_node(cluster: SilentCluster, for_s: float) -> None:
    cluster.stall(X, for_s)
    cluster.run(10 + for_s + 20)
    assert not cluster.down


def test_a_cluster_cut_in_two_halves_loses_nobody(cluster: SilentCluster) -> None:
    cluster.partition(cluster.names[:2], 60)
    cluster.run(100)
    assert not cluster.down


def test_two_nodes_decide_nothing() -> None:
    cluster = SilentCluster(1, 2)
    cluster.run(10)
    cluster.power_off(SlurmName("worker-1"))
    cluster.run(60)
    assert not cluster.down


def test_while_slurmctld_is_frozen_nothing_is_written_and_then_it_is(
    cluster: SilentCluster,
) -> None:
    cluster.freeze_slurmctld(10)
    cluster.power_off(X)
    cluster.run(19)
    assert not cluster.down
    cluster.run(25)
    assert set(cluster.down) == {X}


def test_a_node_that_is_back_before_slurmctld_is_not_set_down(cluster: SilentCluster) -> None:
    cluster.freeze_slurmctld(10)
    cluster.power_off(X)
    cluster.run(17)
    cluster.power_on(X)
    cluster.run(40)
    assert not cluster.down


# --- one pair -------------------------------------------------------------------------------------

A, B = SlurmName("a"), SlurmName("b")


class Pair:
    """A and B exchange heartbeats; ``first`` and ``last`` round of each are kept."""

    def __init__(self) -> None:
        self.a, self.b = Watch(A, "run-a", 2.0), Watch(B, "run-b", 2.0)
        self.a.know([A, B])
        self.b.know([A, B])
        self.now = 100.0
        self.sent: list[Heartbeat] = []
        self.last = Round()

    def exchange(self, rounds: int) -> None:
        for _ in range(rounds):
            self.now += 0.4
            self.last = self.a.round(self.now)
            for beat in self.last.beats:
                self.b.hear(beat, self.now)
            for beat in self.b.round(self.now).beats:
                self.sent.append(beat)
                self.a.hear(beat, self.now)


def view_of_b(pair: Pair) -> float:
    pair.now += 0.4
    (beat,) = pair.a.round(pair.now).beats
    return beat.views[B]


def test_it_counts_as_heard_only_after_heartbeats_and_an_answer_to_tcp() -> None:
    pair = Pair()
    pair.exchange(15)
    assert view_of_b(pair) < 0
    pair.a.answered(B, pair.now)
    assert view_of_b(pair) == 0


def test_a_recorded_heartbeat_shows_no_life() -> None:
    pair = Pair()
    pair.exchange(15)
    pair.a.answered(B, pair.now)
    for _ in range(4):
        pair.now += 0.4
        for beat in pair.sent:  # an attacker sends all of them again
            pair.a.hear(beat, pair.now)
        pair.last = pair.a.round(pair.now)
    assert pair.last.beats[0].views[B] >= 1.2


def test_a_recorded_heartbeat_of_an_earlier_run_shows_no_life() -> None:
    pair = Pair()
    pair.exchange(15)
    old = [replace(beat, run="run-0") for beat in pair.sent]
    pair.a = Watch(A, "run-a2", 2.0)  # this agent has restarted, and knows no run
    pair.a.know([A, B])
    for beat in old:
        pair.a.hear(beat, pair.now)
    for _ in range(12):
        pair.now += 0.4
        done = pair.a.round(pair.now)
    assert done.beats[0].views[B] == UNKNOWN  # B was never heard


def test_a_heartbeat_for_somebody_else_is_ignored_and_one_of_a_stranger_noted() -> None:
    pair = Pair()
    stranger = Heartbeat(sender=SlurmName("c"), to=A, run="r", tick=1)
    pair.a.hear(replace(stranger, to=B), pair.now)
    assert not pair.a.round(pair.now).strangers
    pair.a.hear(stranger, pair.now)
    assert pair.a.round(pair.now).strangers


def test_a_node_that_was_found_dead_is_told_so() -> None:
    pair = Pair()
    pair.exchange(15)
    pair.b.settle(A, done=True)
    (beat,) = pair.b.round(pair.now + 0.4).beats
    assert beat.views[A] == SETTLED
    pair.a.hear(beat, pair.now)
    assert pair.a.round(pair.now + 0.4).reported_dead


def test_a_late_round_begins_every_silence_again() -> None:
    pair = Pair()
    pair.exchange(15)
    pair.a.answered(B, pair.now)
    for _ in range(4):
        view_of_b(pair)
    assert view_of_b(pair) >= 1.6
    pair.now += 5
    assert view_of_b(pair) < 0
