"""The healthy nodes of a job are kept free until Slurm's requeue delay is ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.slurm.client import SlurmJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.jobs.requeue import Requeuer
from slurm_hooks.job import marker as markers
from slurm_hooks.settings.job import JobConfig
from tests.unit.slurm_hooks.agent.jobs.fake_job import ALICE, JOB, FakeSlurm, Node

WIDE = replace(JOB, nodes="n[1-3]")
KEEP, FREE = "keep holdfast-job-7 n1,n2,n3", "free holdfast-job-7"


def node_of(tmp_path: Path, job: SlurmJob = WIDE, *, keep_nodes: bool = True) -> Node:
    return Node(tmp_path, FakeSlurm(job), config=JobConfig(keep_nodes=keep_nodes))


def test_they_are_reserved_before_the_requeue_and_freed_right_before_the_start(
    tmp_path: Path,
) -> None:
    node = node_of(tmp_path)
    node.mark(markers.REQUEUE)
    node.run(1)
    assert node.changes == [KEEP]
    node.slurm.requeued()
    node.run(4)
    assert node.changes == [KEEP, FREE, "start_now"]
    asked = node.slurm.asked
    assert asked.index("start_now") == asked.index(FREE) + 1, "nobody may take them between"


def test_they_are_reserved_while_the_job_leaves_them(tmp_path: Path) -> None:
    """slurmctld may requeue the job before the agent has asked about it."""
    node = node_of(tmp_path)
    node.mark(markers.REQUEUE)
    node.slurm.completing = 5
    node.slurm.requeued()
    node.run(4)
    assert node.changes == [KEEP, FREE, "start_now"]


def test_a_node_that_the_next_run_avoids_is_not_kept(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    node.mark(markers.REQUEUE, exclude=("n3",))
    node.run(1)
    assert node.changes == ["keep holdfast-job-7 n1,n2"]


@pytest.mark.parametrize("ended", ["CANCELLED", "TIMEOUT"])
def test_they_are_freed_if_the_job_does_not_go_on(tmp_path: Path, ended: str) -> None:
    node = node_of(tmp_path)
    node.mark(markers.REQUEUE)
    node.run(1)
    node.slurm.job_now = replace(WIDE, state=ended)
    node.run(2)
    assert (node.changes, node.marked) == ([KEEP, FREE], False)


def test_a_job_with_expedited_requeue_gets_them_as_soon_as_it_waits(tmp_path: Path) -> None:
    node = node_of(tmp_path, replace(WIDE, expedited=True))
    node.mark(markers.REQUEUE)
    node.run(1)
    node.slurm.now = 1003.0
    node.slurm.requeued()
    node.run(0.1)
    assert node.changes == [KEEP], "its other nodes are not free yet"
    node.slurm.pending_second = None
    node.run(3)
    assert node.changes == [KEEP, FREE, "start_now"]


def test_they_are_freed_when_slurm_has_started_the_next_run_itself(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    node.mark(markers.REQUEUE)
    node.run(1)
    node.slurm.job_now = replace(WIDE, restarts=1)
    node.mark(markers.RUNNING, restarts=1)
    node.run(20)
    assert node.changes == [KEEP, FREE]


@pytest.mark.parametrize(
    ("job", "keep_nodes", "state"),
    [
        (replace(WIDE, nodes="n1"), True, markers.REQUEUE),
        (WIDE, False, markers.REQUEUE),
        (WIDE, True, markers.RUNNING),
    ],
)
def test_otherwise_nothing_is_reserved(
    tmp_path: Path, job: SlurmJob, keep_nodes: bool, state: str
) -> None:
    node = node_of(tmp_path, job, keep_nodes=keep_nodes)
    node.mark(state)
    node.run(3)
    assert node.changes == []


def test_they_are_kept_from_the_moment_at_which_a_node_is_bad(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    node.mark(markers.RUNNING)
    node.run(1)
    node.mark(markers.RUNNING, leaving=True)
    node.run(1)
    assert node.changes == [KEEP]
    node.mark(markers.REQUEUE)
    node.run(1)
    node.slurm.requeued()
    node.run(4)
    assert node.changes == [KEEP, FREE, "start_now"]


def test_they_are_freed_if_the_job_is_restarted_on_them(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    node.mark(markers.RUNNING, leaving=True)
    node.run(1)
    node.mark(markers.RUNNING)
    node.run(20)
    assert node.changes == [KEEP, FREE]


def test_a_job_that_slurm_itself_requeues_meanwhile_is_started_only_once_its_nodes_may_take_it(
    tmp_path: Path,
) -> None:
    """NODE_FAIL, before its launcher has asked: slurmd refuses a start in the second of the end, or before."""
    node = node_of(tmp_path)
    node.mark(markers.RUNNING, leaving=True)
    node.run(1)
    node.slurm.completing = 10
    node.slurm.requeued()
    node.ended()
    node.run(6)
    assert node.changes == [KEEP, FREE, "start_now"]
    assert "clock" in node.slurm.asked
    assert node.slurm.job_now is not None
    assert node.slurm.job_now.state == "RUNNING"


def test_a_job_that_a_person_requeues_and_holds_meanwhile_is_not_started(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    node.mark(markers.RUNNING, leaving=True)
    node.run(1)
    held = replace(WIDE, state="PENDING", state_reason="JobHeldAdmin", restarts=1)
    node.slurm.job_now = held
    node.ended()
    node.run(3)
    assert (node.changes, node.marked) == ([KEEP, FREE], False)


def test_a_held_job_with_expedited_requeue_is_not_started(tmp_path: Path) -> None:
    node = node_of(tmp_path, replace(WIDE, expedited=True))
    node.mark(markers.REQUEUE)
    node.run(1)
    assert node.slurm.job_now is not None
    node.slurm.job_now = replace(
        node.slurm.job_now, state="PENDING", state_reason="JobHeldAdmin", restarts=1
    )
    node.run(3)
    assert (node.changes, node.marked) == ([KEEP, FREE], False)


def toggled(node: Node) -> None:
    """A user may send what the launcher sends, as often as the socket takes it."""
    for _ in range(2):
        node.mark(markers.RUNNING, leaving=True)
        node.run(1)
        node.mark(markers.RUNNING)
        node.run(16)


def test_a_job_that_only_says_that_it_leaves_keeps_other_jobs_off_its_nodes_once(
    tmp_path: Path,
) -> None:
    node = node_of(tmp_path)
    toggled(node)
    assert node.changes == [KEEP, FREE]
    node.slurm.now += 600
    toggled(node)
    assert node.changes == [KEEP, FREE] * 2


def test_nor_does_it_again_once_the_worker_has_forgotten_it(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    toggled(node)
    later = Requeuer(
        node.slurm,
        tmp_path,
        JobConfig(keep_nodes=True),
        wall=lambda: node.slurm.now,
        uid_of=lambda _: ALICE,
    )
    node.afterlife = later
    toggled(node)
    assert node.changes == [KEEP, FREE]


def test_only_the_node_with_its_batch_script_keeps_nodes(tmp_path: Path) -> None:
    """The user has a socket on each node of the job."""
    node = node_of(tmp_path)
    node.script_runs = False
    node.mark(markers.RUNNING, leaving=True)
    node.run(1)
    assert node.changes == []


class SlowSlurm(FakeSlurm):
    """Makes the reservation, and its answer comes too late."""

    made = False

    def keep_free(self, name: str, nodes: Sequence[SlurmName], comment: str) -> bool:
        super().keep_free(name, nodes, comment)
        if self.made:
            return False
        self.made = True
        raise Unavailable(["scontrol"], "no answer in 10 s")


def test_they_are_freed_although_slurmctld_did_not_say_that_they_are_reserved(
    tmp_path: Path,
) -> None:
    """Else the job waits for its own nodes."""
    node = Node(tmp_path, SlowSlurm(WIDE), config=JobConfig(keep_nodes=True))
    node.mark(markers.REQUEUE)
    node.run(2)
    node.slurm.requeued()
    node.run(4)
    assert node.changes == [KEEP, KEEP, FREE, "start_now"]
