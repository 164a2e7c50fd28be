"""States that pass soon are not written."""

from __future__ import annotations

from holdfast.vocabulary import SlurmName
from k8s_bridge.names import BUSY, READY
from k8s_bridge.writes.holds import Holds
from tests.unit.k8s_bridge.fake_cluster import FakeCluster

W0 = SlurmName("worker-0")


class Bench:
    """One settled node, and a bridge that holds changes."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.settle()
        self.holds = Holds(unknown_s=30, free_s=60)

    def becomes(self, *words: str) -> None:
        self.cluster.slurm.set_state(W0, *words)

    def writes(self, at: float) -> int:
        """Requests of a pass at that time."""
        self.cluster.kube.asked.clear()
        self.cluster.apply(self.holds.due(self.cluster.plan(), at))
        return len(self.cluster.kube.asked)

    def status(self, condition: str) -> str:
        return self.cluster.view().conditions[condition].status


def test_a_restarted_slurmctld_writes_nothing() -> None:
    bench = Bench()
    bench.becomes("UNKNOWN")
    assert [bench.writes(at) for at in (0, 10, 29)] == [0, 0, 0]
    bench.becomes("IDLE")
    assert [bench.writes(at) for at in (31, 90)] == [0, 0]


def test_a_node_that_stays_unknown_is_shown_so() -> None:
    bench = Bench()
    bench.becomes("UNKNOWN")
    assert [bench.writes(at) for at in (0, 30)] == [0, 1]
    assert bench.status(READY) == "Unknown"
    bench.becomes("IDLE")
    assert bench.writes(31) == 1
    assert bench.status(READY) == "True"


def test_a_lost_answer_waits_and_a_down_node_does_not() -> None:
    bench = Bench()
    bench.becomes("IDLE", "NOT_RESPONDING")
    assert [bench.writes(at) for at in (0, 29)] == [0, 0]
    bench.becomes("DOWN", "NOT_RESPONDING")
    assert bench.writes(29.5) == 1
    assert bench.status(READY) == "False"


def test_a_hundred_jobs_in_a_row_cost_one_write() -> None:
    bench = Bench()
    written = 0
    for job in range(100):
        for second, word in ((0, "ALLOCATED"), (40, "COMPLETING"), (45, "IDLE")):
            bench.becomes(word)
            written += bench.writes(job * 60 + second)
    assert written == 1
    assert bench.status(BUSY) == "True"


def test_a_lone_job_is_shown_from_its_start_until_the_node_stays_free() -> None:
    bench = Bench()
    bench.becomes("ALLOCATED")
    assert bench.writes(0) == 1
    bench.becomes("IDLE")
    assert [bench.writes(at) for at in (1, 60, 61)] == [0, 0, 1]
    assert bench.status(BUSY) == "False"


def test_the_last_job_of_a_draining_node_is_not_held() -> None:
    bench = Bench()
    bench.becomes("ALLOCATED")
    bench.writes(0)
    bench.cluster.slurm.set_drain(W0, "swapping DIMM", "anna")
    assert bench.writes(1) == 1
    bench.becomes("IDLE", "DRAIN")
    assert bench.writes(2) == 1
    assert bench.status(BUSY) == "False"
