"""The writer: how many requests, in which order, and what an error of one Node means for the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from holdfast.errors import Unavailable
from holdfast.vocabulary import SlurmName
from k8s_bridge.kube.api import Edit, KubeUnavailable
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.names import DRAINED
from k8s_bridge.writes.apply import Applier
from k8s_bridge.writes.connections import Connections, Wait
from k8s_bridge.writes.storm import MOST
from tests.unit.k8s_bridge.fake_cluster import AGENT, BRIDGE, HUMAN, FakeCluster

XID = "holdfast:XID79: gpu 3"


def test_a_fault_costs_its_node_two_requests_and_one_event() -> None:
    cluster = FakeCluster(3)
    cluster.settle()
    cluster.kube.asked.clear()
    cluster.slurm.set_drain(SlurmName("worker-1"), XID, AGENT)
    cluster.settle(1)
    assert cluster.kube.asked == ["computeinstance-1"] * 2
    assert len(cluster.kube.events) == 1


def test_a_job_costs_its_node_one_request_at_a_time() -> None:
    cluster = FakeCluster(1)
    cluster.settle()
    for word in ("ALLOCATED", "COMPLETING", "IDLE"):
        cluster.kube.asked.clear()
        cluster.slurm.set_state(SlurmName("worker-0"), word)
        cluster.settle(1)
        assert cluster.kube.asked == ["computeinstance-0"]


def test_many_cordons_are_one_write_to_slurm() -> None:
    cluster = FakeCluster(50)
    cluster.settle()
    for i in range(50):
        cluster.kube.cordon(f"computeinstance-{i}", True)
    cluster.round()
    assert [len(names) for names in cluster.slurm.drain_calls] == [50]


def test_the_oldest_drain_is_told_first_and_causes_take_turns() -> None:
    cluster = FakeCluster(9)
    cluster.settle()
    for i in (7, 5, 3, 1):
        cluster.slurm.set_drain(SlurmName(f"worker-{i}"), XID, AGENT)
        cluster.wait(1)
    cluster.slurm.set_drain(SlurmName("worker-8"), "swapping DIMM", HUMAN)
    cluster.kube.asked.clear()
    cluster.round()
    order = list(dict.fromkeys(cluster.kube.asked))
    assert order == [f"computeinstance-{i}" for i in (7, 8, 5, 3, 1)]


def test_a_storm_is_one_event() -> None:
    cluster = FakeCluster(MOST + 5)
    cluster.settle()
    for name in cluster.slurm.by_name:
        cluster.slurm.set_drain(name, XID, AGENT)
    cluster.round()
    (event,) = cluster.kube.events.values()
    assert event["reason"] == "SlurmDrained"
    assert event["regarding"]["kind"] == "Namespace"
    assert event["note"].startswith(f"{MOST + 5} Nodes (computeinstance-[0-{MOST + 4}]); of ")
    assert "XID79" in event["note"]
    assert all(cluster.view(i).conditions[DRAINED].status == "True" for i in range(MOST + 5))


def test_a_persons_drain_in_a_storm_does_not_wait_for_the_storm() -> None:
    """One Event stands for its Event and those of the storm; it is a transition nevertheless."""
    cluster = FakeCluster(MOST + 5)
    cluster.settle()
    cluster.slurm.set_state(SlurmName("worker-0"), "ALLOCATED")  # no transition: it comes last
    names = list(cluster.slurm.by_name)
    for name in names[1:-1]:
        cluster.slurm.set_drain(name, "holdfast:XID79: x", AGENT)
    cluster.slurm.set_drain(names[-1], "swapping DIMM", HUMAN)
    cluster.kube.asked.clear()
    cluster.round()
    assert len(cluster.kube.events) == 1
    order = list(dict.fromkeys(cluster.kube.asked))
    assert order[1] == f"computeinstance-{MOST + 4}"
    assert order[-1] == "computeinstance-0"


def test_in_a_storm_all_nodes_are_reported_before_the_first_one_is_isolated() -> None:
    cluster = FakeCluster(MOST + 1)
    cluster.settle()
    for name in cluster.slurm.by_name:
        cluster.slurm.set_drain(name, XID, AGENT)
    views = range(MOST + 1)
    isolated_at: list[int] = []

    def reported() -> int:
        return sum(cluster.view(i).conditions[DRAINED].status == "True" for i in views)

    edit = cluster.kube.edit

    def counted(seen: KubeNode, decide: Callable[[KubeNode], Edit | None]) -> KubeNode:
        isolated_at.append(reported())
        return edit(seen, decide)

    cluster.kube.edit = counted  # type: ignore[method-assign]
    cluster.round()
    assert isolated_at == [MOST + 1] * (MOST + 1)
    assert all(cluster.view(i).unschedulable for i in views)
    assert cluster.plan() == []


def test_the_rest_of_a_storm_makes_no_second_event() -> None:
    cluster = FakeCluster(2 * MOST)
    cluster.settle()
    for name in cluster.slurm.by_name:
        cluster.slurm.set_drain(name, XID, AGENT)
    applier = Applier(cluster.slurm, cluster.kube, BRIDGE)
    applier.apply(cluster.plan(), until=0)  # the Event, and no time for more
    assert not cluster.view().unschedulable
    assert len(cluster.kube.events) == 1
    applier.apply(cluster.plan())
    assert cluster.plan() == []
    assert len(cluster.kube.events) == 1


def test_a_worker_that_changed_its_machine_since_the_plan_is_not_drained() -> None:
    cluster = FakeCluster(2)
    cluster.settle()
    cluster.kube.cordon("computeinstance-0", True)
    planned = cluster.plan()
    name = SlurmName("worker-0")
    cluster.slurm.by_name[name] = replace(
        cluster.slurm.by_name[name], instance_id="computeinstance-9"
    )
    cluster.apply(planned)
    assert not cluster.node().drained_flag


def test_a_heartbeat_since_the_plan_costs_no_second_read() -> None:
    """The applier takes the newest version that the watch has."""
    cluster = FakeCluster()
    cluster.settle()
    cluster.slurm.set_drain(SlurmName("worker-0"), XID, AGENT)
    planned = cluster.plan()
    cluster.kube.annotate("computeinstance-0", "other/key", "new")
    conflicts = []
    cluster.kube.before_patch = lambda: conflicts.append(1)
    cluster.apply(planned)
    assert len(conflicts) == 2, "without a watch: late once, then read again"
    assert cluster.view().unschedulable


def test_what_is_done_beside_the_jobs_ends_them() -> None:
    started = threading.Event()
    written: list[int] = []
    ended: list[bool] = []

    def job() -> None:
        started.wait(60)
        written.append(1)

    def beside(wait: Wait) -> None:
        ended.append(wait(time.monotonic() + 0.01))
        started.set()

    jobs = Connections(2).run([job] * 1000, time.monotonic() + 60, beside)
    assert ended == [False], "two jobs were waiting"
    assert len(written) == jobs, "those that were started have ended"


def test_jobs_that_end_early_wake_what_is_done_beside_them() -> None:
    ended: list[bool] = []

    def beside(wait: Wait) -> None:
        ended.append(wait(time.monotonic() + 60))

    assert Connections(2).run([lambda: None] * 5, beside=beside) == 5
    assert ended == [True]


def test_an_error_beside_the_jobs_is_raised_after_they_have_ended() -> None:
    def beside(_: Wait) -> None:
        raise Unavailable(["sinfo"], "no answer")

    with pytest.raises(Unavailable):
        Connections(2).run([lambda: None] * 5, beside=beside)


def test_several_connections_at_once_and_none_after_the_end() -> None:
    met = threading.Barrier(4, timeout=30)

    def job() -> None:
        met.wait()

    assert Connections(4).run([job] * 4) == 4
    assert Connections(4).run([job] * 4, until=0) == 0


def test_when_the_api_server_is_silent_the_rest_is_not_tried() -> None:
    tried = []

    def silent() -> None:
        tried.append(1)
        raise KubeUnavailable("no answer")

    with pytest.raises(KubeUnavailable):
        Connections(1).run([silent] * 50)
    assert len(tried) == 1


def test_the_drain_of_a_silent_slurm_does_not_stop_the_conditions() -> None:

    cluster = FakeCluster(2)
    cluster.kube.cordon("computeinstance-0", True)

    def silent() -> object:
        raise Unavailable(["sdiag"], "no answer in 5 s")

    cluster.slurm.clock = silent  # type: ignore[method-assign,assignment]
    with pytest.raises(Unavailable):
        cluster.round()
    assert len(cluster.view(1).conditions) == 3
