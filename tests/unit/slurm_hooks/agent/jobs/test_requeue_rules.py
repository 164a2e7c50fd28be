"""What follows from a job's state in Slurm and its marker, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.slurm.client import SlurmJob
from slurm_hooks.agent.jobs.requeue_rules import Next, after_requeue, before_requeue, patience_s
from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker
from tests.unit.slurm_hooks.agent.jobs.fake_job import ALICE, JOB

RUNNING = Marker(job=7, restarts=0, state=markers.RUNNING, at=0.0, owner=ALICE)
REQUEUED = replace(RUNNING, state=markers.REQUEUE)


def _job(state: str, reason: str = "None", exit_code: str = "1:0") -> SlurmJob:
    return replace(JOB, state=state, state_reason=reason, exit_code=exit_code)


@pytest.mark.parametrize(
    ("marker", "job", "since_s", "hangs", "may_requeue", "expected"),
    [
        (RUNNING, _job("RUNNING"), 0, False, True, Next.LOOK_LATER),
        (RUNNING, _job("RUNNING"), 0, True, True, Next.REQUEUE),
        (RUNNING, _job("RUNNING"), 0, True, False, Next.FORGET),
        (REQUEUED, _job("RUNNING"), 0, True, True, Next.LOOK_SOON),
        (RUNNING, _job("FAILED+COMPLETING"), 0, False, True, Next.LOOK_SOON),
        (RUNNING, _job("FAILED"), 0, False, True, Next.REQUEUE),
        (RUNNING, _job("FAILED"), 0, False, False, Next.FORGET),
        (RUNNING, _job("FAILED", exit_code="0:15"), 0, False, True, Next.FORGET),
        (RUNNING, _job("FAILED", exit_code="0:1"), 0, False, True, Next.FORGET),
        (REQUEUED, _job("FAILED", exit_code="0:15"), 0, False, True, Next.REQUEUE),
        (RUNNING, _job("FAILED", exit_code="0:10"), 0, False, True, Next.FORGET),
        (RUNNING, _job("FAILED", exit_code="0:11"), 0, False, True, Next.REQUEUE),
        (RUNNING, _job("FAILED", exit_code="0:9"), 0, False, True, Next.REQUEUE),
        (RUNNING, _job("OUT_OF_MEMORY"), 0, False, True, Next.REQUEUE),
        (RUNNING, _job("CANCELLED"), 0, False, True, Next.FORGET),
        (RUNNING, _job("PENDING"), 29, False, True, Next.LOOK_SOON),
        (RUNNING, _job("PENDING"), 30, False, True, Next.FORGET),
    ],
)
def test_before_a_requeue(
    marker: Marker, job: SlurmJob, since_s: float, hangs: bool, may_requeue: bool, expected: Next
) -> None:
    found = before_requeue(marker, job, since_s, lambda: hangs, lambda: False, lambda: may_requeue)
    assert found is expected


@pytest.mark.parametrize(
    ("marker", "state", "gone", "may_requeue", "expected"),
    [
        (REQUEUED, "RUNNING", True, True, Next.REQUEUE),
        (REQUEUED, "RUNNING", True, False, Next.FORGET),
        (REQUEUED, "RUNNING", False, True, Next.LOOK_SOON),
        (REQUEUED, "SUSPENDED", True, True, Next.LOOK_SOON),
        (RUNNING, "RUNNING", True, True, Next.LOOK_LATER),
    ],
)
def test_a_requeue_that_slurmctld_has_forgotten_is_made_again_once_the_script_is_gone(
    marker: Marker, state: str, gone: bool, may_requeue: bool, expected: Next
) -> None:
    found = before_requeue(marker, _job(state), 0, lambda: False, lambda: gone, lambda: may_requeue)
    assert found is expected


@pytest.mark.parametrize(
    ("job", "since_s", "delay_s", "expected"),
    [
        (_job("RUNNING"), 0, 0, Next.FORGET),
        (_job("PENDING+COMPLETING"), 0, 0, Next.LOOK_SOON),
        (_job("PENDING", "BeginTime"), 0, 121, Next.START),
        (_job("PENDING", "NonZeroExitCode"), 0, 121, Next.START),
        (_job("PENDING", "BeginTime"), 0, 601, Next.FORGET),
        (_job("PENDING", "JobHeldUser"), 0, 0, Next.FORGET),
        (_job("PENDING", "Priority"), 0, -5, Next.FORGET),
        (_job("PENDING", "ReqNodeNotAvail, Reserved for maintenance"), 0, -5, Next.FORGET),
        (_job("PENDING", "NonZeroExitCode"), 599, -5, Next.LOOK_SOON),
        (_job("PENDING", "NonZeroExitCode"), 600, -5, Next.FORGET),
    ],
)
def test_after_a_requeue(job: SlurmJob, since_s: float, delay_s: float, expected: Next) -> None:
    assert after_requeue(RUNNING, job, since_s, delay_s, lambda: True) is expected


@pytest.mark.parametrize("may_requeue", [True, False])
def test_slurms_hold_of_a_killed_launchers_job_is_released_within_the_limits(
    may_requeue: bool,
) -> None:
    job = replace(_job("PENDING+REQUEUE_HOLD", "JobHeldUser", "137:0"), expedited=True)
    expected = Next.RELEASE if may_requeue else Next.FORGET
    assert after_requeue(RUNNING, job, 0, 0, lambda: may_requeue) is expected


def test_a_start_is_checked_until_the_job_runs() -> None:
    assert patience_s({"PENDING"}) > patience_s({"RUNNING"}) > patience_s({"COMPLETED"}) == 0
    assert patience_s({"RUNNING", "CONFIGURING"}) == 600, "a prolog may take minutes"
