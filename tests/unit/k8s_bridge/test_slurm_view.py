"""The cheap look at Slurm shows what a full read would show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import Unavailable
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.topology import Group
from holdfast.vocabulary import NodeState, SlurmName
from k8s_bridge.slurm_view import TOPOLOGY_S, SlurmView, Topology
from tests.unit.k8s_bridge.fake_cluster import AGENT, FakeCluster

W0, W1 = SlurmName("worker-0"), SlurmName("worker-1")


class Bench:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = FakeCluster(3)
        self.now = 0.0
        self.full = 0
        whole = self.cluster.slurm.nodes

        def nodes() -> list[SlurmNode]:
            self.full += 1
            return whole()

        monkeypatch.setattr(
            self.cluster.slurm,
            "nodes_fast",
            lambda: [replace(n, instance_id="", boot_at=None) for n in whole()],
        )
        monkeypatch.setattr(self.cluster.slurm, "nodes", nodes)
        self.view = SlurmView(self.cluster.slurm, 60, lambda: self.now)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_without_a_change_it_is_the_same_list(bench: Bench) -> None:
    first = bench.view.read()
    assert bench.view.read() is first
    assert bench.full == 1
    bench.now = 61
    bench.view.refresh()
    assert bench.full == 2
    assert bench.view.read() is first, "nor does a full read change it"


def test_a_full_read_has_its_time_between_two_looks(bench: Bench) -> None:
    bench.view.read()
    bench.now = 59
    bench.view.refresh()
    assert bench.full == 1, "not before its time"
    bench.now = 119
    bench.view.read()
    assert bench.full == 1, "no look waits for it"
    bench.now = 121
    bench.view.read()
    assert bench.full == 2, "unless there was no time between the looks"


def test_a_drain_is_seen_without_a_full_read_and_keeps_the_machine(bench: Bench) -> None:
    before = {node.name: node for node in bench.view.read()}
    bench.cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    after = {node.name: node for node in bench.view.read()}
    assert after[W0] == bench.cluster.slurm.by_name[W0]
    assert after[W0].instance_id == "computeinstance-0"
    assert after[W1] is before[W1]
    assert bench.full == 1


def test_a_node_that_returns_is_read_whole_at_once(bench: Bench) -> None:
    """It may be another machine, with another InstanceId."""
    bench.view.read()
    bench.cluster.slurm.set_state(W0, "DOWN")
    bench.view.read()
    bench.cluster.slurm.set_state(W0, "IDLE")
    moved = replace(bench.cluster.slurm.by_name[W0], instance_id="computeinstance-9")
    bench.cluster.slurm.by_name[W0] = moved
    assert {node.name: node.instance_id for node in bench.view.read()}[W0] == "computeinstance-9"


def test_a_new_node_and_one_that_sinfo_leaves_out_are_read_whole(bench: Bench) -> None:
    bench.view.read()
    bench.cluster.slurm.add("worker-7", "computeinstance-7")
    assert len(bench.view.read()) == 4
    fast = bench.cluster.slurm.nodes_fast
    bench.cluster.slurm.nodes_fast = lambda: fast()[1:]  # type: ignore[method-assign]
    bench.cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    assert NodeState.DRAIN in {node.name: node.states for node in bench.view.read()}[W0]


def test_the_topology_is_read_now_and_then_and_survives_a_silent_slurmctld() -> None:
    now = [0.0]
    answers: list[list[Group] | None] = [
        [Group(name="leaf0", nodes=("worker-0", "worker-1"))],
        None,
        [Group(name="leaf0", nodes=("worker-0", "worker-1"))],
        [Group(name="leaf9", nodes=("worker-0",))],
    ]

    def read() -> list[Group]:
        answer = answers.pop(0)
        if answer is None:
            raise Unavailable("scontrol", "no answer")
        return answer

    topology = Topology(read, lambda: now[0])
    topology.refresh()
    first = topology.domains
    assert first == {W0: "leaf0", W1: "leaf0"}
    for _ in range(3):
        topology.refresh()
    assert len(answers) == 3, "not at each look"
    for _ in range(2):
        now[0] += TOPOLOGY_S
        topology.refresh()
        assert topology.domains is first
    now[0] += TOPOLOGY_S
    topology.refresh()
    assert topology.domains == {W0: "leaf9"}
    nobody = Topology()
    nobody.refresh()
    assert nobody.domains == {}


def test_a_request_to_change_a_node_is_asked_for_between_two_looks(bench: Bench) -> None:
    assert not bench.view.changed(), "nothing to compare with"
    assert not bench.view.changed()
    bench.cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    assert bench.view.changed()
    assert not bench.view.changed(), "once"


def test_where_slurmctld_does_not_say_it_the_question_is_rare(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def silent() -> object:
        asked.append(bench.now)
        raise Unavailable(["sdiag"], "not installed")

    monkeypatch.setattr(bench.cluster.slurm, "node_changes", silent)
    for bench.now in (0, 1, 59, 60, 61):
        assert not bench.view.changed()
    assert asked == [0, 60]
