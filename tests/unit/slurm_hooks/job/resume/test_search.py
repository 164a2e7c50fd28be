"""A checkpoint that is complete but bad: the last good one is found by bisection."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from holdfast.policy.job.decision import decide
from holdfast.policy.job.facts import FailureKind, JobFacts, Next, PastAttempt
from slurm_hooks.job.checkpoints.bisection import Evidence, Trial, plan
from slurm_hooks.job.checkpoints.candidate import Candidate, Checkpoint
from slurm_hooks.job.checkpoints.find import Choice, newest_first
from slurm_hooks.job.past_attempts import JournalAttempt, evidence_on_checkpoints
from slurm_hooks.job.resume.search import Search
from slurm_hooks.settings.job import JobConfig

HOUR_S = 3600.0
NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)


def candidate(step: int, changed_at: float) -> Candidate:
    return Candidate(
        path=Path(f"/c/step_{step}.pt"),
        framework="torch",
        step=step,
        unit="step",
        changed_at=changed_at,
    )


def attempt(number: int, step: int, ended_at: float, *, good: bool, kind: str) -> JournalAttempt:
    return JournalAttempt(
        number=number,
        started=True,
        ended=True,
        exit_code=0 if good else 1,
        terminated=False,
        resumed_path=f"/c/step_{step}.pt",
        resumed_step=step,
        fingerprint="exit:1",
        progressed=good,
        node_fault=False,
        suspects=(),
        ended_at=ended_at,
        wall_s=90.0,
        kind=kind,
        proved=good,
    )


@dataclass
class Job:
    """A job with an hourly checkpoint, whose attempts from step ``first_bad`` on fail after 90 s."""

    first_bad: int
    found: list[Candidate]
    now: float = 10_000 * HOUR_S
    kind: str = "unknown"
    history: list[JournalAttempt] = field(default_factory=list)

    def chosen(self) -> tuple[Candidate, Search]:
        evidence = evidence_on_checkpoints(self.history)
        planned = plan(newest_first(self.found), evidence)
        one = planned.order[0]
        checkpoint = Checkpoint(
            path=one.path, framework="torch", step=one.step, changed_at=one.changed_at
        )
        newer = planned.newer_untested(str(one.path))
        choice = Choice(chosen=checkpoint, newer_untested=newer)
        return one, Search(choice=choice, failed_after_s=evidence.failed_after_s)

    def attempt(self) -> tuple[int, bool]:
        """Runs one attempt: the step that it resumed from, and whether it goes on for good."""
        one, searched = self.chosen()
        assert one.step is not None
        good = one.step < self.first_bad
        ended = not good or bool(searched.proved(200.0))
        self.now += 200.0
        if ended:
            number = len(self.history) + 1
            self.history.append(attempt(number, one.step, self.now, good=good, kind=self.kind))
        return one.step, not ended


def hourly(count: int) -> list[Candidate]:
    return [candidate(step, step * HOUR_S) for step in range(1, count + 1)]


@pytest.mark.parametrize("first_bad", range(2, 65))
def test_the_last_good_of_64_is_found_in_6_restarts(first_bad: int) -> None:
    job = Job(first_bad, hourly(64))
    starts = [job.attempt()[0] for _ in range(2)]
    assert starts == [64, 64]  # once may be chance
    goes_on = False
    while not goes_on:
        step, goes_on = job.attempt()
        starts.append(step)
    tested = set(starts[2:])
    assert len(tested) <= 6
    assert starts[-1] == first_bad - 1
    # Where the last test failed, the checkpoint that passed before is started once more.
    assert len(starts) - 2 <= 6 + (starts[-1] in starts[2:-1])


def test_the_policy_restarts_as_long_as_there_is_another_checkpoint() -> None:
    same = PastAttempt(fingerprint="exit:1", progressed=False)
    facts = JobFacts(exit_code=1, current=same, past=[same] * 7, next_checkpoint="step_32.pt")
    decision = decide(facts, JobConfig(), NOW)
    assert decision.next is Next.RESTART
    assert "step_32.pt" in decision.why
    assert decide(replace(facts, next_checkpoint=""), JobConfig(), NOW).next is Next.HOLD


@pytest.mark.parametrize(
    ("kind", "expected"), [(FailureKind.USER, Next.HOLD), (FailureKind.PROGRAM, Next.FAIL)]
)
def test_an_error_of_the_user_is_not_searched_for_in_checkpoints(
    kind: FailureKind, expected: Next
) -> None:
    same = PastAttempt(fingerprint="exit:1", progressed=False, kind=kind)
    facts = JobFacts(exit_code=1, current=same, past=[same] * 3, next_checkpoint="step_32.pt")
    assert decide(facts, JobConfig(), NOW).next is expected


def test_infrastructure_is_no_evidence_against_a_checkpoint() -> None:
    job = Job(1, hourly(8), kind="infrastructure")
    assert [job.attempt()[0] for _ in range(4)] == [8, 8, 8, 8]


def test_a_checkpoint_written_since_then_is_not_avoided() -> None:
    found = [*hourly(8), candidate(6, 200 * HOUR_S)]
    bad = Trial(path="/c/step_5.pt", step=5, ended_at=100 * HOUR_S)
    planned = plan(newest_first(found), Evidence(bad=(bad,)))
    assert (planned.order[0].step, planned.order[0].changed_at) == (6, 200 * HOUR_S)
    assert [one.step for one in planned.avoided] == [8, 7, 6, 5]


def test_a_good_attempt_is_not_ended_for_little_work() -> None:
    """Half an hour of work is at stake at most, and the attempt has run for an hour."""
    chosen = Checkpoint(path=Path("/c/1"), framework="torch", step=1, changed_at=HOUR_S)
    choice = Choice(chosen=chosen, newer_untested=(candidate(2, 2 * HOUR_S),))
    searched = Search(choice=choice, failed_after_s=90.0)
    assert not searched.proved(HOUR_S)
    assert not searched.proved(100.0)  # a bad one may run so long
    assert searched.proved(200.0)


def test_a_transient_failure_does_not_rule_out_a_checkpoint_that_worked() -> None:
    job = Job(2, hourly(4))
    while not job.attempt()[1]:
        pass
    job.history.append(attempt(8, 1, job.now, good=True, kind=""))
    job.history.append(attempt(9, 1, job.now, good=False, kind="unknown"))
    assert all(trial.step != 1 for trial in evidence_on_checkpoints(job.history).bad)


def test_the_number_of_tests_grows_with_the_logarithm() -> None:
    job = Job(1, hourly(1000))  # none is good
    starts = 0
    while plan(newest_first(job.found), evidence_on_checkpoints(job.history)).order:
        job.attempt()
        starts += 1
    assert starts <= 2 + math.ceil(math.log2(1000))
