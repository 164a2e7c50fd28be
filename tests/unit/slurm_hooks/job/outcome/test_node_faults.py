"""What the launcher reads of its job and its nodes before it says how the job ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.slurm.client import SlurmJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.outcome.node_faults import JobSnapshot, NodeFault, look_until_fatal

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


def test_it_looks_for_no_longer_than_it_may() -> None:
    clock = Clock()
    healthy = JobSnapshot(job=JOB, faults=())
    found = look_until_fatal(
        lambda: healthy, wait_s=2.0, clock=lambda: clock.now, sleep=clock.sleep
    )
    assert found is healthy
    assert 2.0 <= clock.now < 4.0
