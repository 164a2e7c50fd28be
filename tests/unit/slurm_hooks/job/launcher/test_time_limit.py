"""``holdfast run --continue``: before the time limit the program saves and the job is requeued."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from holdfast.errors import UsageError
from holdfast.policy.job.facts import Next
from holdfast.slurm.client import SlurmJob
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.launcher.time_limit import BeforeLimit, TimeLimit, parse
from slurm_hooks.job.outcome.checkpoints_left import Left
from slurm_hooks.job.past_attempts import past
from slurm_hooks.job.step.run_step import StepEnd
from slurm_hooks.job.step.srun_output import TaskFailure

LIMIT = 10_000.0
JOB = SlurmJob(
    job_id=7,
    name="train",
    user="alice",
    state="RUNNING",
    state_reason="None",
    restarts=0,
    requeue=True,
    end_at=datetime.fromtimestamp(LIMIT, timezone.utc),
)


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(
        path=Path(f"/c/step_{step}.pt"), framework="torch", step=step, changed_at=float(step)
    )


@dataclass
class Attempt:
    """An attempt that resumed from step 100, and what it has written since."""

    option: BeforeLimit | None
    newest: int = 100
    sent: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.limit = TimeLimit(self.option, self.left, self.sent.append)

    def left(self) -> Left:
        return Left(newest=checkpoint(self.newest), progressed=self.newest > 100)

    def look(self, left_s: float, job: SlurmJob | None = JOB) -> str:
        return self.limit.look(job, LIMIT - left_s)


def end(status: int, *, why: str = "", how: str = "", terminated: bool = False) -> StepEnd:
    failures = (TaskFailure(host="n1", tasks="0", how=how, code=None, at=0.5),) if how else ()
    return StepEnd(
        status=status,
        started_at=0.0,
        ended_at=1.0,
        ended_why=why,
        failures=failures,
        terminated=terminated,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("300", BeforeLimit(seconds=300)),
        ("USR1@300", BeforeLimit(seconds=300, signal=signal.SIGUSR1)),
        ("SIGUSR2@120", BeforeLimit(seconds=120, signal=signal.SIGUSR2)),
        ("10@600", BeforeLimit(seconds=600, signal=signal.SIGUSR1)),
    ],
)
def test_the_option(text: str, expected: BeforeLimit) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "give [SIGNAL@]SECONDS"),
        ("5m", "give [SIGNAL@]SECONDS"),
        ("-5", "give [SIGNAL@]SECONDS"),
        ("60", "give 120 to 86400 seconds"),
        ("USR1@90000", "give 120 to 86400 seconds"),
        ("NOSUCH@300", "NOSUCH is not a signal"),
        ("KILL@300", "KILL is not a signal"),
        ("TERM@300", "TERM is not a signal"),
        ("0@300", "0 is not a signal"),
    ],
)
def test_a_wrong_option_is_named(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert problem in str(raised.value)


def test_the_step_ends_after_the_next_checkpoint() -> None:
    attempt = Attempt(BeforeLimit(seconds=300), newest=150)
    assert attempt.look(301) == ""
    assert attempt.look(299) == ""
    assert attempt.look(280) == ""
    attempt.newest = 160
    why = attempt.look(240)
    assert why == "time limit in 0:04:00; continues from step 160 after a requeue"
    decision = attempt.limit.ended(end(-15, why=why))
    assert decision is not None
    assert (decision.next, decision.why) == (Next.REQUEUE, why)
    assert attempt.sent == []


def test_the_signal_is_sent_once() -> None:
    attempt = Attempt(BeforeLimit(seconds=300, signal=signal.SIGUSR1), newest=150)
    for left_s in (299, 290, 280):
        assert attempt.look(left_s) == ""
    assert attempt.sent == [signal.SIGUSR1]


def test_without_a_further_checkpoint_it_ends_in_the_last_minute() -> None:
    attempt = Attempt(BeforeLimit(seconds=300), newest=150)
    assert attempt.look(299) == attempt.look(61) == ""
    assert "continues from step 150" in attempt.look(59)


def test_a_run_without_any_new_checkpoint_is_not_continued(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It would run for ever without progress."""
    attempt = Attempt(BeforeLimit(seconds=300))
    assert [attempt.look(left_s) for left_s in (299, 59, 30, 1)] == [""] * 4
    assert capsys.readouterr().err.count("no new checkpoint in this run") == 1
    assert attempt.limit.ended(end(-9)) is None


def test_a_job_without_requeue_is_told_and_not_signalled(
    capsys: pytest.CaptureFixture[str],
) -> None:
    attempt = Attempt(BeforeLimit(seconds=300, signal=signal.SIGUSR1), newest=150)
    job = replace(JOB, requeue=False)
    assert [attempt.look(left_s, job) for left_s in (299, 59)] == ["", ""]
    assert attempt.sent == []
    assert "--no-requeue" in capsys.readouterr().err
    assert attempt.limit.ended(end(0)) is None


@pytest.mark.parametrize("job", [None, replace(JOB, end_at=None)])
def test_without_a_known_limit_nothing_happens(job: SlurmJob | None) -> None:
    attempt = Attempt(BeforeLimit(seconds=300, signal=signal.SIGUSR1), newest=150)
    assert attempt.look(10, job) == ""
    assert attempt.sent == []


@pytest.mark.parametrize(("status", "how"), [(0, ""), (138, "User defined signal 1")])
def test_a_program_that_saves_and_ends_at_the_signal_continues(status: int, how: str) -> None:
    attempt = Attempt(BeforeLimit(seconds=300, signal=signal.SIGUSR1), newest=150)
    attempt.look(299)
    attempt.newest = 155
    decision = attempt.limit.ended(end(status, how=how))
    assert decision is not None
    assert (decision.next, decision.why) == (
        Next.REQUEUE,
        "time limit; continues from step 155 after a requeue",
    )


def test_before_the_signal_an_end_is_the_programs_own() -> None:
    attempt = Attempt(BeforeLimit(seconds=300, signal=signal.SIGUSR1), newest=150)
    assert attempt.look(301) == ""
    assert attempt.limit.ended(end(0)) is None


def test_another_failure_after_the_signal_is_a_failure() -> None:
    attempt = Attempt(BeforeLimit(seconds=300, signal=signal.SIGUSR1), newest=150)
    attempt.look(299)
    assert attempt.limit.ended(end(1, how="Exited with exit code 1")) is None
    assert attempt.limit.ended(end(0, terminated=True)) is None


def test_a_program_that_the_signal_kills_before_any_checkpoint_fails() -> None:
    attempt = Attempt(BeforeLimit(seconds=300, signal=signal.SIGUSR1))
    attempt.look(299)
    decision = attempt.limit.ended(end(138, how="User defined signal 1"))
    assert decision is not None
    assert decision.next is Next.FAIL


def test_a_continued_attempt_is_progress_and_no_failure() -> None:
    events = [
        {"event": "attempt", "attempt": 1, "t": 1.0},
        {"event": "step_start", "attempt": 1, "t": 2.0},
        {"event": "step_end", "attempt": 1, "t": 3.0, "exit_code": 143},
        {"event": "continued", "attempt": 1, "t": 4.0},
    ]
    (attempt,) = past(events)
    assert (attempt.failed, attempt.progressed, attempt.terminated) == (False, True, True)
