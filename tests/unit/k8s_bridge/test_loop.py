"""The loop: what it does when a side does not answer, and what it does with a kill switch."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.errors import Refused, Unavailable
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.parse.sdiag import NodeChanges
from holdfast.vocabulary import KubeName, SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.endpoints.metrics import BridgeMetrics
from k8s_bridge.endpoints.passes import Pass
from k8s_bridge.kube.api import KubeFailed, KubeNotFound
from k8s_bridge.loop import Bridge, Look
from k8s_bridge.model.changes import WriteRecord
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.names import DRAINED
from k8s_bridge.writes.connections import Wait
from k8s_bridge.writes.refusals import Refusals
from tests.unit.k8s_bridge.fake_cluster import AGENT, NOON, FakeCluster

W0 = SlurmName("worker-0")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def bridge_over(cluster: FakeCluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bridge:
    config = folder / "holdfast.yaml"
    bridge = Bridge(cluster.slurm, cluster.kube, cluster.policy, config, BridgeMetrics())

    def nodes() -> list[KubeNode]:
        return cluster.kube.list_nodes()[0]

    monkeypatch.setattr(bridge.watch, "nodes", nodes)
    monkeypatch.setattr(bridge.watch, "known", lambda name: known(cluster, name))
    return bridge


def known(cluster: FakeCluster, name: KubeName) -> KubeNode | None:
    try:
        return cluster.kube.node(name)
    except KubeNotFound:
        return None


def silent(names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
    raise Unavailable(["scontrol"], "no answer in 5 s")


def test_three_silences_of_slurm_make_conditions_unknown_and_undo_nothing(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    bridge.step(NOON)
    asked = cluster.slurm.nodes
    monkeypatch.setattr(cluster.slurm, "nodes", silent)
    assert [bridge.step(NOON) for _ in range(3)] == [0, 0, 1]
    assert cluster.view().conditions[DRAINED].status == "Unknown"
    assert cluster.view().unschedulable
    assert bridge.step(NOON) == 0
    monkeypatch.setattr(cluster.slurm, "nodes", asked)
    bridge.step(NOON)
    assert cluster.view().conditions[DRAINED].status == "True"


def test_a_drain_ends_the_wait_for_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an hour between two looks, only the question between them can end it."""
    cluster = FakeCluster(1)
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    monkeypatch.setattr("k8s_bridge.loop.QUESTION_S", 0.01)
    asked = cluster.slurm.node_changes
    questions: list[int] = []

    def drained_meanwhile() -> NodeChanges:
        questions.append(1)
        if len(questions) == 3:
            cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
        return asked()

    monkeypatch.setattr(cluster.slurm, "node_changes", drained_meanwhile)
    bridge._wait(time.monotonic() + 3600)
    assert len(questions) == 3
    bridge.wake.set()
    bridge._wait(time.monotonic() + 3600)
    assert len(questions) == 3, "a change in Kubernetes ends it at once"


def test_nothing_is_written_while_kubernetes_cannot_be_watched(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    cluster.kube.cordon("computeinstance-0", True)
    bridge.step(NOON)
    assert cluster.node().drained_flag
    monkeypatch.setattr(bridge.watch, "nodes", lambda: None)
    cluster.kube.cordon("computeinstance-0", False)
    assert bridge.step(NOON) == 0
    assert cluster.node().drained_flag, "silence is no uncordon"


@pytest.mark.parametrize("switch", ["all", "bridge"])
def test_with_the_kill_switch_it_reports_and_does_not_act(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    (tmp_path / "off").mkdir()
    (tmp_path / "off" / switch).touch()
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    bridge.step(NOON)
    assert cluster.view().conditions[DRAINED].status == "True"
    assert not cluster.view().unschedulable
    (tmp_path / "off" / switch).unlink()
    bridge.step(NOON)
    assert cluster.view().unschedulable


def test_a_storm_is_taken_in_parts_the_urgent_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(20, BridgeConfig(connections=1))
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    cluster.slurm.set_drain(SlurmName("worker-13"), "holdfast:XID79: x", AGENT)
    time_is_up_after(cluster, monkeypatch, nodes=1)
    assert bridge.step(NOON) == 2
    assert cluster.view(13).unschedulable
    assert cluster.view(13).conditions[DRAINED].status == "True"
    assert bridge.wake.is_set(), "the rest is written without a pause"
    monkeypatch.undo()
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    assert bridge.step(NOON) == 19
    assert bridge.step(NOON) == 0


def test_no_pause_between_the_parts_of_a_long_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock advances by 1 s at each question, so that a pass writes some of the Nodes."""
    cluster = FakeCluster(20, BridgeConfig(connections=1, poll_s=300))
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    monkeypatch.setattr(bridge.watch, "start", lambda: None)
    monkeypatch.setattr("k8s_bridge.loop.SHORTEST_PAUSE_S", 600.0)
    monkeypatch.setattr("k8s_bridge.loop.SLICE_S", 5.0)
    ticks = itertools.count()
    for module in ("loop", "writes.connections"):
        clock = SimpleNamespace(monotonic=lambda: float(next(ticks)))
        monkeypatch.setattr(f"k8s_bridge.{module}.time", clock)
    written = threading.Event()
    passes: list[bool] = []

    def passed(*, failed: bool) -> None:
        passes.append(failed)
        if len(set(cluster.kube.asked)) == 20:
            written.set()

    monkeypatch.setattr(bridge._metrics, "passed", passed)
    loop = threading.Thread(target=bridge.run)
    loop.start()
    try:
        assert written.wait(60)
        assert len(passes) > 1
        assert not any(passes)
    finally:
        bridge.stop()
        loop.join(60)
    assert not loop.is_alive(), "a stop ends the pause"


class LongPlan:
    """A bridge with a plan of which a part is written, then a look is made, while the connections are busy."""

    def __init__(self, bridge: Bridge, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch):
        self.cluster = cluster
        self._busy, self._looked, self._ended = (threading.Event() for _ in range(3))
        self._write, self._look = cluster.kube.patch_status, bridge._look
        self._ahead = bridge._look_ahead
        self._looks = 0
        monkeypatch.setattr("k8s_bridge.loop.SLICE_S", 0.0)
        monkeypatch.setattr(cluster.kube, "patch_status", self.write)
        monkeypatch.setattr(bridge, "_look", self.look)
        monkeypatch.setattr(bridge, "_look_ahead", self.look_ahead)

    def write(self, name: KubeName, *rest: Any) -> KubeNode:
        if len(self.cluster.kube.asked) >= 5:
            self._busy.set()
            (self._ended if self._looked.is_set() else self._looked).wait(60)
        return self._write(name, *rest)

    def look(self, now: datetime) -> Look:
        """The second one sees a drain."""
        self._looks += 1
        if self._looks == 2:
            assert self._busy.wait(60)
            self.cluster.slurm.set_drain(SlurmName("worker-29"), "holdfast:XID79: x", AGENT)
        found = self._look(now)
        if self._looks == 2:
            self._looked.set()
        return found

    def look_ahead(self, until: float, wait: Wait) -> None:
        self._ahead(until, wait)
        self._ended.set()


def test_the_next_look_is_made_while_a_long_plan_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written meanwhile is not written again, and what the look saw is written without another."""
    cluster = FakeCluster(30, BridgeConfig(connections=2))
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    with monkeypatch.context() as patch:
        LongPlan(bridge, cluster, patch)
        first = bridge.step(NOON)
    assert 0 < first < 30
    assert bridge.wake.is_set(), "the rest is written without a pause"
    asked = list(cluster.kube.asked)
    assert len(asked) == len(set(asked)) == first
    with monkeypatch.context() as patch:
        patch.setattr(bridge, "_look", None)  # the look is there already
        patch.setattr("k8s_bridge.loop.SLICE_S", 60.0)
        bridge.step(NOON)
    second = cluster.kube.asked[first:]
    assert second[0] == "computeinstance-29", "the drain that the look saw comes first"
    assert not set(second) & set(asked), "written while the look was made: left to the next plan"
    bridge.step(NOON)
    assert bridge.step(NOON) == 0
    assert cluster.view(29).unschedulable
    assert all(cluster.view(i).conditions for i in range(30))


def time_is_up_after(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, nodes: int) -> None:
    """The slice of a pass ends when this many Nodes were written."""

    def now() -> float:
        return 1000.0 if len(set(cluster.kube.asked)) >= nodes else 0.0

    for module in ("loop", "writes.connections"):
        monkeypatch.setattr(f"k8s_bridge.{module}.time", SimpleNamespace(monotonic=now))


def test_denied_nodes_do_not_take_the_time_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice in which only the denied Nodes come: the next one begins with the others."""
    cluster = FakeCluster(6, BridgeConfig(connections=1))
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    cluster.kube.denied = {"computeinstance-0", "computeinstance-1"}
    for name in cluster.slurm.by_name:
        cluster.slurm.set_drain(name, "holdfast:XID79: x", AGENT)
    for _ in range(6):
        cluster.kube.asked.clear()
        time_is_up_after(cluster, monkeypatch, nodes=1)
        bridge.step(NOON)
    assert [cluster.view(i).unschedulable for i in range(6)] == [False] * 2 + [True] * 4
    assert all(cluster.view(i).conditions[DRAINED].status == "True" for i in range(2, 6))


def test_a_temporary_error_for_one_node_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(3)
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    write = cluster.kube.patch_status

    def broken_for_one(name: KubeName, *rest: Any) -> KubeNode:
        if name == "computeinstance-0":
            raise KubeFailed("PATCH: 500: failed calling webhook")
        return write(name, *rest)

    monkeypatch.setattr(cluster.kube, "patch_status", broken_for_one)
    assert bridge.step(NOON) == 2
    assert bridge.step(NOON) == 0
    monkeypatch.setattr(cluster.kube, "patch_status", write)
    assert bridge.step(NOON + timedelta(seconds=6)) == 1


def test_a_pass_is_traced_with_what_it_planned_and_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(3)
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    traced: list[Pass] = []
    bridge.trace = traced.append
    bridge._one_pass()
    (first,) = traced
    assert (first.planned, first.written, first.error) == (3, 3, "")
    assert 0 < first.begun_ns <= first.looked_ns <= first.ended_ns
    bridge._one_pass()
    assert (traced[1].planned, traced[1].written) == (0, 0)

    def broken() -> list[KubeNode]:
        raise KubeFailed("GET: 500")

    monkeypatch.setattr(bridge.watch, "nodes", broken)
    bridge._one_pass()
    assert traced[2].error == "KubeFailed"


def test_nothing_is_planned_while_neither_side_changed(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    bridge.step(NOON)
    nodes, kube = cluster.slurm.nodes_fast(), cluster.kube.list_nodes()[0]
    monkeypatch.setattr(cluster.slurm, "nodes_fast", lambda: nodes)
    monkeypatch.setattr(bridge.watch, "nodes", lambda: kube)
    bridge.step(NOON)
    monkeypatch.setattr("k8s_bridge.planning.planner.plan", None)
    monkeypatch.setattr(cluster.slurm, "nodes", None)
    assert bridge.step(NOON) == 0


def test_a_denied_write_is_logged_and_retried_with_growing_waits(
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("k8s_bridge.writes.apply.log", LimitedLog(Log("bridge")))
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    cluster.kube.denied = {"computeinstance-0"}
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    tries = []
    for second in range(400):
        cluster.kube.asked.clear()
        bridge.step(NOON + timedelta(seconds=second))
        if cluster.kube.asked:
            tries.append(second)
    assert tries == [0, 5, 15, 35, 75, 155, 315]
    log = capfd.readouterr().err.splitlines()
    isolations = [line for line in log if "rejected node=computeinstance-0 change=Isolate" in line]
    assert len(isolations) == len(tries)
    assert r"nodes \"computeinstance-0\" is forbidden: denied request: not these" in isolations[0]
    cluster.kube.denied.clear()
    bridge.step(NOON + timedelta(seconds=700))
    assert cluster.view().unschedulable


def test_a_refused_drain_in_slurm_does_not_hold_up_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(3)
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    write = cluster.slurm.drain

    def drain(names: Sequence[SlurmName], reason: str) -> None:
        if W0 in names:
            raise Refused(["scontrol"], "Access/permission denied")
        write(names, reason)

    monkeypatch.setattr(cluster.slurm, "drain", drain)
    for i in range(3):
        cluster.kube.cordon(f"computeinstance-{i}", True)
    for _ in range(12):
        bridge.step(NOON)
    assert [cluster.node(i).drained_flag for i in range(3)] == [False, True, True]


def test_another_change_of_the_same_node_does_not_wait(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = bridge_over(cluster, tmp_path, monkeypatch)
    cluster.kube.denied = {"computeinstance-0"}
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    bridge.step(NOON)
    cluster.kube.denied.clear()
    cluster.slurm.set_drain(W0, "holdfast:XID48: y", AGENT)
    bridge.step(NOON)
    assert cluster.view().taint == "XID48"


def test_a_clock_that_is_set_back_extends_no_wait() -> None:
    refusals, change = Refusals(), WriteRecord(kube=FakeCluster().view(), record=None)
    refusals.refused(change, NOON)
    assert refusals.due([change], NOON + timedelta(seconds=1)) == []
    assert refusals.due([change], NOON - timedelta(days=1)) == [change]
