"""What the launcher reads of its job and its nodes before it says how the job ended."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from holdfast.errors import CommandError, NotInstalled, Refused, Unavailable
from holdfast.records.leave import Leave
from holdfast.slurm.client import SlurmClient, SlurmJob, SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job.outcome.node_faults import (
    JobSnapshot,
    NodeFault,
    fault_of,
    look_until_answered,
    look_until_fatal,
    read_snapshot,
)

JOB = SlurmJob(
    job_id=7, name="t", user="alice", state="RUNNING", state_reason="", restarts=0, requeue=True
)
FAULT = NodeFault(node=SlurmName("worker-1"), code="XID79", detail="GPU 3 fell off", fatal=True)


@pytest.mark.parametrize(
    "state",
    [
        "CANCELLED",
        "TIMEOUT",
        "DEADLINE",
        "PREEMPTED",
        "REVOKED",
        "NODE_FAIL",
        "BOOT_FAIL",
        "OUT_OF_MEMORY",
        "FAILED",
        "COMPLETED",
        "PENDING",
        "COMPLETING+CANCELLED",
    ],
)
def test_exit_code_0_is_no_success_in_a_job_that_slurm_has_ended(state: str) -> None:
    assert JobSnapshot(job=replace(JOB, state=state), faults=()).ended_by_slurm


@pytest.mark.parametrize("state", ["RUNNING", "RUNNING+COMPLETING", "CONFIGURING"])
def test_a_running_job_was_not_ended(state: str) -> None:
    assert not JobSnapshot(job=replace(JOB, state=state), faults=()).ended_by_slurm


def test_without_an_answer_nobody_knows_whether_slurm_ended_the_job() -> None:
    assert not JobSnapshot(job=None, faults=None).ended_by_slurm


@pytest.mark.parametrize(
    ("reason", "leave"),
    [
        ("holdfast:KUBE_RULE: x rule=spot-aws jobs=leave until=500 at=380", Leave(500.0)),
        ("holdfast:KUBE_RULE: x rule=nebius-gpu-error at=380", None),
    ],
)
def test_a_machine_that_is_going_to_be_stopped(reason: str, leave: Leave | None) -> None:
    states = frozenset({NodeState.ALLOCATED, NodeState.DRAIN})
    found = fault_of(SlurmNode(name=SlurmName("worker-1"), states=states, reason=reason))
    assert found is not None
    assert (found.fatal, found.leave) == (False, leave)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    "settled",
    [
        JobSnapshot(job=JOB, faults=(FAULT,)),
        JobSnapshot(job=replace(JOB, state="CANCELLED"), faults=None),
    ],
    ids=["a fatal fault", "a job that Slurm has ended"],
)
def test_it_looks_again_until_a_fatal_fault_or_the_jobs_end_shows(settled: JobSnapshot) -> None:
    clock = Clock()
    warning = JobSnapshot(job=JOB, faults=(replace(FAULT, fatal=False),))
    answers = iter([JobSnapshot(job=JOB, faults=None), warning, settled])
    found = look_until_fatal(
        lambda: next(answers), wait_s=60.0, clock=lambda: clock.now, sleep=clock.sleep
    )
    assert found is settled


SILENT = JobSnapshot(job=None, faults=None, silent=True)
ANSWER = JobSnapshot(job=JOB, faults=())


@pytest.mark.parametrize(
    ("answers", "expected", "slept_s"),
    [
        ([ANSWER], ANSWER, 0.0),
        ([SILENT, SILENT, SILENT, ANSWER], ANSWER, 0.25 + 0.5 + 1.0),
        ([replace(ANSWER, silent=True), ANSWER], ANSWER, 0.25),
        ([JobSnapshot(job=None, faults=None)], JobSnapshot(job=None, faults=None), 0.0),
    ],
    ids=["at once", "later", "half an answer", "Slurm does not know the job"],
)
def test_it_waits_for_a_slurmctld_that_is_silent(
    answers: list[JobSnapshot], expected: JobSnapshot, slept_s: float
) -> None:
    clock, looks = Clock(), iter(answers)
    found = look_until_answered(
        lambda: next(looks),
        patience_s=60,
        clock=lambda: clock.now,
        sleep=clock.sleep,
        stop=lambda: False,
    )
    assert (found, clock.now) == (expected, slept_s)


@pytest.mark.parametrize(("stops_at_s", "least_s"), [(1e9, 49.0), (20.0, 20.0), (0.0, 0.0)])
def test_it_waits_for_no_longer_than_it_may(stops_at_s: float, least_s: float) -> None:
    clock = Clock()
    found = look_until_answered(
        lambda: SILENT,
        patience_s=60,
        clock=lambda: clock.now,
        sleep=clock.sleep,
        stop=lambda: clock.now >= stops_at_s,
    )
    assert found is SILENT
    assert least_s <= clock.now <= min(60.0, stops_at_s + 10)


class Client:
    """Raises ``errors`` for the job and for its nodes; None: it answers."""

    def __init__(self, of_job: CommandError | None, of_nodes: CommandError | None) -> None:
        self._of_job, self._of_nodes = of_job, of_nodes

    def job(self, _job_id: int) -> SlurmJob | None:
        if self._of_job:
            raise self._of_job
        return JOB

    def nodes(self, _names: object) -> list[SlurmNode]:
        if self._of_nodes:
            raise self._of_nodes
        return []


@pytest.mark.parametrize(
    ("of_job", "of_nodes", "silent"),
    [
        (None, None, False),
        (Unavailable(["scontrol"], "timed out"), None, True),
        (None, Unavailable(["scontrol"], "timed out"), True),
        (Refused(["scontrol"], "invalid"), None, False),
        (NotInstalled(["scontrol"], "no such file"), None, False),
        (None, Refused(["scontrol"], "no such node"), False),
    ],
)
def test_only_a_slurmctld_that_may_answer_later_is_silent(
    of_job: CommandError | None, of_nodes: CommandError | None, silent: bool
) -> None:
    found = read_snapshot(cast("SlurmClient", Client(of_job, of_nodes)), 42, ())
    assert found.silent is silent
    assert (found.job is None, found.faults is None) == (bool(of_job), bool(of_nodes))


def test_it_looks_for_no_longer_than_it_may() -> None:
    clock = Clock()
    healthy = JobSnapshot(job=JOB, faults=())
    found = look_until_fatal(
        lambda: healthy, wait_s=2.0, clock=lambda: clock.now, sleep=clock.sleep
    )
    assert found is healthy
    assert 2.0 <= clock.now < 4.0
