"""A running job leaves a degraded node once a checkpoint is complete."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.policy.job.degraded_nodes import MoveLimits
from holdfast.policy.job.facts import Next
from holdfast.records.leave import Leave
from holdfast.slurm.client import SlurmJob, SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.outcome.checkpoints_left import Left
from slurm_hooks.job.outcome.node_faults import JobSnapshot, NodeFault
from slurm_hooks.job.progress.degraded_nodes import DegradedNodes, idle_nodes, to_leave
from slurm_hooks.job.step.run_step import StepEnd
from slurm_hooks.job.step.srun_output import TaskFailure

JOB = SlurmJob(
    job_id=7,
    name="train",
    user="alice",
    state="RUNNING",
    state_reason="",
    restarts=0,
    requeue=True,
    partition="gpu",
)
SLOW = NodeFault(node=SlurmName("worker-3"), code="IB_RATE", detail="100 Gb/s", fatal=False)
MEMORY = replace(SLOW, code="ROW_REMAP_PENDING")
DEGRADED = JobSnapshot(job=JOB, faults=(SLOW, MEMORY))
NOON = 1_795_000_000.0
WELL = JobSnapshot(job=JOB, faults=())


class Attempt:
    """An attempt that resumed from step 100, and what it has written since."""

    def __init__(self, number: int | None = signal.SIGUSR1, patience_s: float = 600.0) -> None:
        self.newest, self.idle, self.now = 100, 1, 0.0
        self.sent = list[int]()
        self.nodes = DegradedNodes(
            *(number, self.left, self.sent.append, lambda _: self.idle),
            MoveLimits(patience_s=patience_s, notice_s=600.0),
        )

    def left(self) -> Left:
        path = Path(f"/c/step_{self.newest}.pt")
        newest = Checkpoint(
            path=path, framework="torch", step=self.newest, changed_at=float(self.newest)
        )
        return Left(newest=newest, progressed=self.newest > 100)

    def look(self, snapshot: JobSnapshot = DEGRADED, after_s: float = 10.0) -> str:
        self.now += after_s
        return self.nodes.look(snapshot, self.now, NOON + self.now)


def end(status: int, *, why: str = "", how: str = "", terminated: bool = False) -> StepEnd:
    failures = (TaskFailure(host="n1", tasks="0", how=how, code=None, at=0.5),) if how else ()
    return StepEnd(
        status=status,
        started_at=0.0,
        ended_at=1.0,
        failures=failures,
        ended_why=why,
        terminated=terminated,
    )


def test_the_program_is_asked_and_the_job_leaves_after_the_checkpoint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    attempt = Attempt()
    assert attempt.look() == ""
    assert attempt.sent == [signal.SIGUSR1]
    assert (
        "degraded: worker-3 (IB_RATE: 100 Gb/s): sending SIGUSR1; the job leaves"
        in capsys.readouterr().err
    )
    assert attempt.look() == "", "nothing is written yet"
    attempt.newest = 120
    why = attempt.look()
    assert "continues from step 120 on other nodes" in why
    assert attempt.sent == [signal.SIGUSR1], "once"
    decision = attempt.nodes.ended(end(-15, why=why))
    assert decision is not None
    assert (decision.next, decision.why, decision.exclude) == (Next.REQUEUE, why, ())


def test_without_a_signal_the_next_regular_checkpoint_counts() -> None:
    attempt = Attempt(number=None)
    assert attempt.look() == ""
    attempt.newest = 120
    assert attempt.look() != ""
    assert attempt.sent == []


def test_a_job_without_other_nodes_stays_and_leaves_at_a_later_checkpoint() -> None:
    attempt = Attempt()
    attempt.idle = 0
    assert attempt.look() == ""
    assert attempt.sent == []
    attempt.idle = 1
    attempt.look()
    attempt.idle, attempt.newest = 0, 120
    assert attempt.look() == ""
    attempt.idle = 1
    assert attempt.look() == "", "what was computed after step 120 is not lost"
    attempt.newest = 140
    assert "step 140" in attempt.look()


def test_without_a_checkpoint_the_job_stays(capsys: pytest.CaptureFixture[str]) -> None:
    attempt = Attempt()
    attempt.look()
    assert attempt.look(after_s=599.0) == ""
    assert "the job stays" not in capsys.readouterr().err
    assert attempt.look() == ""
    assert (
        "no checkpoint and no other nodes within 0:10:00; the job stays" in capsys.readouterr().err
    )
    attempt.newest = 120
    assert attempt.look() == ""


def stopped(after_s: float | None) -> JobSnapshot:
    """The machine of a node is stopped ``after_s`` after the attempt began; ``None``: at an unknown time."""
    until = None if after_s is None else NOON + after_s
    leaves = replace(SLOW, code="KUBE_RULE", leave=Leave(until))
    return JobSnapshot(job=JOB, faults=(leaves, replace(leaves, leave=Leave(None))))


def test_before_its_machine_is_stopped_a_job_leaves_with_a_new_checkpoint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    attempt = Attempt()
    attempt.idle = 0
    assert not attempt.nodes.hurries
    assert attempt.look(stopped(500)) == ""
    assert attempt.nodes.hurries
    assert attempt.sent == [signal.SIGUSR1], "also where no other node is free"
    assert "the machine is stopped at" in capsys.readouterr().err
    attempt.newest = 120
    why = attempt.look(stopped(500))
    assert "after a checkpoint; continues from step 120" in why
    decision = attempt.nodes.ended(end(-15, why=why))
    assert decision is not None
    assert decision.next is Next.REQUEUE


def test_without_a_new_checkpoint_it_leaves_shortly_before() -> None:
    attempt = Attempt()
    assert attempt.look(stopped(100)) == ""
    assert attempt.look(stopped(100), after_s=59) == ""
    assert "without a new checkpoint, as the machine" in attempt.look(stopped(100), after_s=2)
    late = Attempt()
    assert "without a new checkpoint" in late.look(stopped(20)), "no time to ask"
    assert late.sent == []


def test_long_before_it_leaves_only_for_free_nodes_and_never_gives_up() -> None:
    attempt = Attempt(patience_s=300)
    attempt.idle = 2
    attempt.look(stopped(3600))
    assert attempt.sent == [signal.SIGUSR1]
    attempt.idle, attempt.newest = 0, 120
    assert attempt.look(stopped(3600)) == "", "it would wait in the queue"
    assert attempt.look(stopped(3600), after_s=1000) == ""
    assert attempt.look(stopped(3600), after_s=2000) == ""
    assert len(attempt.sent) == 2, "a checkpoint of long ago does not count"
    attempt.newest = 140
    assert "step 140" in attempt.look(stopped(3600))


def test_a_job_that_stays_on_a_degraded_node_leaves_before_a_machine_is_stopped() -> None:
    attempt = Attempt()
    attempt.look()
    attempt.look(after_s=700)
    attempt.newest = 120
    assert attempt.look() == "", "it has given up"
    assert attempt.look(stopped(1300)) == ""
    assert attempt.nodes.hurries
    assert len(attempt.sent) == 2, "asked again"
    attempt.newest = 140
    assert "after a checkpoint; continues from step 140" in attempt.look(stopped(1300))


def test_a_job_that_stays_on_a_degraded_node_leaves_another_one() -> None:
    attempt = Attempt()
    attempt.look()
    attempt.look(after_s=700)
    other = replace(SLOW, node=SlurmName("worker-4"))
    attempt.idle = 3
    assert attempt.look(JobSnapshot(job=JOB, faults=(SLOW, MEMORY, other))) == ""
    assert len(attempt.sent) == 2
    again = Attempt()
    again.look()
    again.look(after_s=700)
    again.look(WELL)
    again.look()
    assert len(again.sent) == 2, "the node was in service between"


def test_at_an_unknown_time_it_leaves_as_a_degraded_node() -> None:
    attempt = Attempt()
    attempt.idle = 0
    assert attempt.look(stopped(None)) == ""
    assert attempt.sent == []
    attempt.idle = 2
    attempt.look(stopped(None))
    attempt.newest = 120
    assert "step 120" in attempt.look(stopped(None))


def test_a_node_that_returns_to_service_changes_nothing() -> None:
    attempt = Attempt()
    attempt.look()
    assert attempt.look(WELL) == ""
    attempt.newest = 120
    assert attempt.look(WELL) == ""
    assert attempt.look() == "", "asked again"
    assert attempt.sent == [signal.SIGUSR1] * 2


def test_slurmctld_that_does_not_answer_changes_nothing() -> None:
    attempt = Attempt()
    attempt.look()
    assert attempt.look(JobSnapshot(job=None, faults=None)) == ""
    attempt.newest = 120
    assert attempt.look() != ""


@pytest.mark.parametrize(
    ("ended", "newest", "next_"),
    [
        (end(0), 120, Next.REQUEUE),
        (end(0), 100, None),
        (end(143, how="User defined signal 1"), 100, Next.REQUEUE),
        (end(1, how="Killed"), 120, None),
        (end(-15, terminated=True), 120, None),
        (end(-15, why="bad node: worker-3 (XID79)"), 120, None),
    ],
)
def test_a_program_that_ends_after_the_signal(
    ended: StepEnd, newest: int, next_: Next | None
) -> None:
    attempt = Attempt()
    attempt.look()
    attempt.newest = newest
    decision = attempt.nodes.ended(ended)
    assert (decision.next if decision else None) is next_


def test_which_faults_move_a_job() -> None:
    fatal = replace(SLOW, code="XID79", fatal=True)
    assert to_leave((SLOW, MEMORY, fatal, replace(SLOW, fatal=True))) == (SLOW,)


class Slurm:
    """The nodes of a cluster."""

    def __init__(self, *nodes: SlurmNode) -> None:
        self._nodes = nodes

    def nodes_fast(self) -> tuple[SlurmNode, ...]:
        return tuple(replace(node, partitions=()) for node in self._nodes)

    def nodes(self, names: list[SlurmName]) -> tuple[SlurmNode, ...]:
        return tuple(node for node in self._nodes if node.name in names)


def node(name: str, *states: NodeState, partition: str = "gpu") -> SlurmNode:
    return SlurmNode(
        name=SlurmName(name),
        states=frozenset(states or {NodeState.IDLE}),
        partitions=(partition,),
    )


def test_free_nodes_are_idle_in_service_and_of_the_jobs_partition() -> None:
    slurm = Slurm(
        node("own"),
        node("free"),
        node("drained", NodeState.IDLE, NodeState.DRAIN),
        node("silent", NodeState.IDLE, NodeState.NOT_RESPONDING),
        node("used", NodeState.ALLOCATED),
        node("reserved", NodeState.IDLE, NodeState.RESERVED),
        node("cpu", partition="cpu"),
    )
    assert idle_nodes(slurm, JOB, [SlurmName("own")]) == 1  # type: ignore[arg-type]
    assert idle_nodes(Slurm(), JOB, []) == 0  # type: ignore[arg-type]


def test_an_unknown_number_of_free_nodes() -> None:
    class Silent(Slurm):
        def nodes_fast(self) -> tuple[SlurmNode, ...]:
            raise Unavailable("scontrol", "no answer")

    assert idle_nodes(Silent(), JOB, []) is None  # type: ignore[arg-type]
