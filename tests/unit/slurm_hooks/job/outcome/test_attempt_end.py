"""A missing program: on all nodes a user error, on one node perhaps a lost mount."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from holdfast.policy.job.decision import decide
from holdfast.policy.job.facts import FailureKind, JobDecision, Next
from holdfast.slurm.client import SlurmJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.diagnosis.causes import Diagnosis, LogLine, diagnose
from slurm_hooks.job.outcome.attempt_end import AttemptEnd, attempt_end, facts
from slurm_hooks.job.outcome.checkpoints_left import Left
from slurm_hooks.job.outcome.node_faults import JobSnapshot, NodeFault
from slurm_hooks.job.step.run_step import StepEnd
from slurm_hooks.job.step.srun_output import task_failure_in
from slurm_hooks.settings.job import JobConfig

NODES = (SlurmName("worker-0"), SlurmName("worker-1"))
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
JOB = SlurmJob(
    job_id=7, name="t", user="alice", state="RUNNING", state_reason="", restarts=0, requeue=True
)
EVERYWHERE = """\
srun: error: worker-1: task 1: Exited with exit code 2
srun: Terminating StepId=1.0
slurmstepd-worker-1: error: execve(): nosuchprogram: No such file or directory
slurmstepd-worker-0: error: execve(): nosuchprogram: No such file or directory
srun: error: worker-0: task 0: Exited with exit code 2
"""
ON_ONE_NODE = """\
srun: error: worker-1: tasks 1-2: Exited with exit code 2
slurmstepd-worker-1: error: execve(): /mnt/tools/train: No such file or directory
srun: error: worker-0: task 0: Terminated
"""
AS_A_LIST = """\
slurmstepd-worker-1: error: execve(): nosuchprogram: No such file or directory
srun: error: worker-[0-1]: tasks 0-1: Exited with exit code 2
"""


def _diagnosed(lines: tuple[str, ...]) -> Diagnosis:
    return diagnose(
        LogLine(file="stderr", number=number, text=text)
        for number, text in enumerate(lines, start=1)
    )


def ended(output: str, nodes: tuple[SlurmName, ...] = NODES) -> AttemptEnd:
    tail = tuple(output.splitlines())
    failures = tuple(filter(None, (task_failure_in(line, 1.0) for line in tail)))
    end = StepEnd(status=2, started_at=0.0, ended_at=1.0, failures=failures, found=_diagnosed(tail))
    return attempt_end(end, Left(), nodes)


def after(this: AttemptEnd, tries: int, faults: tuple[NodeFault, ...] = ()) -> JobDecision:
    """The decision after the job has ended like this ``tries`` times."""
    known = facts(JobSnapshot(job=JOB, faults=faults), this, [], len(NODES))
    return decide(replace(known, past=[known.current] * (tries - 1)), JobConfig(), NOW)


@pytest.mark.parametrize("output", [EVERYWHERE, AS_A_LIST])
def test_a_program_that_no_node_has_is_tried_once_more_and_then_held(output: str) -> None:
    this = ended(output)
    assert (this.kind, this.suspects) == (FailureKind.USER, frozenset())
    assert this.cause is not None
    assert this.cause.signature.code == "U07"
    assert after(this, 1).next is Next.RESTART
    assert after(this, 2).next is Next.HOLD


@pytest.mark.parametrize("error", ["ModuleNotFoundError: No module named 'x'", "SyntaxError: x"])
def test_a_program_that_cannot_be_imported_fails_at_once(error: str) -> None:
    """Also where only one node's task printed it before the others were ended."""
    this = ended(f"{error}\nsrun: error: worker-1: task 1: Exited with exit code 1\n")
    assert (this.kind, this.suspects) == (FailureKind.PROGRAM, frozenset())
    decision = after(this, 1)
    assert (decision.next, decision.why.partition(":")[0]) == (Next.FAIL, "user error")


@pytest.mark.parametrize(
    "later",
    [
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        "srun: error: worker-1: task 1: Exited with exit code 1\n",
        "srun: error: worker-1: task 1: Aborted (core dumped)\n",
    ],
)
def test_a_logged_import_error_before_another_failure_does_not_fail_the_job(later: str) -> None:
    this = ended(f"ModuleNotFoundError: No module named 'x'\n{later}")
    assert this.kind is FailureKind.UNKNOWN
    assert after(this, 1).next is Next.RESTART


def test_a_bad_node_outranks_a_program_that_cannot_be_imported() -> None:
    this = ended("ModuleNotFoundError: No module named 'x'\n")
    lost = NodeFault(node=NODES[1], code="MOUNT_GONE", detail="", fatal=True)
    assert after(this, 1, (lost,)).next is Next.REQUEUE


def test_on_a_job_of_one_node_a_missing_program_is_a_user_error() -> None:
    assert ended(ON_ONE_NODE, NODES[1:]).kind is FailureKind.USER


def test_a_program_that_is_missing_on_one_node_only_makes_the_node_suspect() -> None:
    this = ended(ON_ONE_NODE)
    assert this.kind is FailureKind.UNKNOWN
    assert list(this.suspects) == ["worker-1"]
    assert after(this, 1).next is Next.RESTART
    again = after(this, 2)
    assert (again.next, again.exclude) == (Next.REQUEUE, ("worker-1",))


@pytest.mark.parametrize("output", [EVERYWHERE, ON_ONE_NODE])
def test_a_known_lost_mount_takes_precedence_over_the_missing_program(output: str) -> None:
    gone = NodeFault(node=NODES[1], code="MOUNT_GONE", detail="", fatal=True)
    moved = after(ended(output), 2, (gone,))
    assert (moved.next, moved.why) == (Next.REQUEUE, "bad node worker-1 (MOUNT_GONE)")


@pytest.mark.parametrize(
    "output",
    [
        "w-1:1:2 [3] NCCL WARN socketProgress: Connection closed by remote peer w-2<47247>\n",
        "slurmstepd: error: *** STEP 7.0 ON worker-1 CANCELLED AT 2026-08-01T10:00:00 ***\n",
        "/var/spool/slurmd/job7/slurm_script: line 4:  8156 Killed                  python3 x.py\n",
    ],
)
def test_what_does_not_tell_why_is_not_taken_for_infrastructure(output: str) -> None:
    this = ended(f"{output}srun: error: worker-1: task 1: Exited with exit code 1\n")
    assert this.kind is FailureKind.UNKNOWN


def test_only_nodes_of_the_job_are_suspect_also_by_their_full_names() -> None:
    line = "{}:1:2 [3] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'\n"
    assert ended(line.format("worker-1.cluster.local")).suspects == {"worker-1"}
    assert ended(line.format("other-1")).suspects == frozenset()
