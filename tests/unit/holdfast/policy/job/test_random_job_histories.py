"""10,000 simulated histories of jobs: no loop without an end, and no hold of a job that goes on."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

import pytest

from holdfast.policy.job.decision import MAX_OUTAGES, decide
from holdfast.policy.job.facts import (
    FailureKind,
    JobDecision,
    JobFacts,
    Next,
    NodeEvidence,
    PastAttempt,
)
from holdfast.vocabulary import SlurmName
from slurm_hooks.settings.job import JobConfig

START = datetime(2026, 11, 22, tzinfo=timezone.utc)
NODES = [SlurmName(f"worker-{number}") for number in range(4)]
LIMITS = JobConfig()
DAY = timedelta(hours=24)
GOES_ON = (Next.RESTART, Next.REQUEUE)
_MOST_ATTEMPTS = 40


@dataclass
class Life:
    """One job that fails again and again, each time for a reason drawn by chance."""

    chance: random.Random
    past: list[PastAttempt] = field(default_factory=list)
    now: datetime = START
    opted_in: bool = True

    def __post_init__(self) -> None:
        draw = self.chance.random
        self.opted_in = draw() > 0.05
        self._progress = self.chance.choice([0.0, 0.1, 0.5, 0.95, 1.0])
        self._unknown = self.chance.choice([0.0, 0.0, 0.3, 1.0])
        self._bad_node = self.chance.choice([0.0, 0.1, 0.5])
        self._preempted = self.chance.choice([0.0, 0.1, 0.5])
        self._kinds = self.chance.sample(list(FailureKind), self.chance.randint(1, 4))
        self._hours = self.chance.choice([0.01, 0.5, 5.0])

    def attempt(self) -> JobFacts:
        """The end of the next attempt."""
        draw, chance = self.chance.random, self.chance
        self.now += timedelta(hours=self._hours * draw())
        kind = chance.choice(self._kinds)
        progressed = None if draw() < self._unknown else draw() < self._progress
        at_fault = draw() < self._bad_node
        by_others = draw() < self._preempted
        nodes = (NodeEvidence(node=NODES[0], code="XID79", fatal=True),) if at_fault else ()
        suspects = frozenset(chance.sample(NODES, chance.choice([0, 0, 1, 2, 4])))
        current = PastAttempt(
            fingerprint=f"{kind.value}:{chance.choice('ab')}",
            progressed=progressed,
            kind=kind,
            node_fault=at_fault,
            suspects=suspects,
            ended_at=self.now,
        )
        return JobFacts(
            exit_code=chance.choice([1, 1, 137, None]),
            current=current,
            ended_by=chance.choice(["PREEMPTED", "TIMEOUT", "CANCELLED"]) if by_others else "",
            requeue=self.opted_in,
            nodes=nodes,
            past=list(self.past),
            node_count=len(NODES),
            spares=chance.choice([None, 0, 8]),
            most_ranks=draw() < 0.3,
            both_ends=len(suspects) == 2,
        )

    def record(self, facts: JobFacts) -> None:
        others = bool(facts.ended_by)
        charged = not others and facts.exit_code is not None
        self.past.append(replace(facts.current, charged=charged, by_others=others))


def lives(first: int, count: int) -> list[tuple[Life, list[tuple[JobFacts, JobDecision]]]]:
    """Lives to their ends: the decisions until the job is held, fails, or was started often enough."""
    found = []
    for seed in range(first, first + count):
        life = Life(random.Random(seed))
        story: list[tuple[JobFacts, JobDecision]] = []
        while len(story) < _MOST_ATTEMPTS:
            facts = life.attempt()
            decision = decide(facts, LIMITS, life.now)
            story.append((facts, decision))
            life.record(facts)
            if decision.next not in GOES_ON and not facts.ended_by:
                break
            life.now += timedelta(seconds=decision.delay_s)
        found.append((life, story))
    return found


@pytest.mark.parametrize("batch", range(10))
def test_the_budgets_hold_in_simulated_histories(batch: int) -> None:
    for life, story in lives(batch * 1000, 1000):
        fruitless: list[PastAttempt] = []
        for facts, decision in story:
            current = facts.current
            goes_on = decision.next in GOES_ON
            # No restart that the owner did not opt in to, or after an end by others.
            assert not goes_on or (life.opted_in and not facts.ended_by)
            # No hold while progress is made, or for what others did.
            if decision.next is Next.HOLD:
                assert not current.progressed
                assert not facts.ended_by
                own_error = facts.most_ranks and facts.kind is FailureKind.USER
                if own_error and len(story) > 1 and "most ranks" in decision.why:
                    assert {one.progressed for one in (current, *facts.past)} == {False}
            if current.progressed:
                fruitless = []
            elif not facts.ended_by:
                charged = facts.exit_code is not None
                fruitless.append(replace(current, charged=charged))
            if goes_on:
                _within_budgets(fruitless, life.now)
            if decision.next is Next.REQUEUE and not facts.nodes:
                assert 0 < len(decision.exclude) < len(NODES)
                assert facts.spares is None or facts.spares >= len(decision.exclude)


def _within_budgets(fruitless: list[PastAttempt], now: datetime) -> None:
    """``fruitless``: the attempts since the last progress that nobody else ended."""
    counted = [
        one for one in fruitless if one.ended_at is not None and one.ended_at > now - 0.99 * DAY
    ]
    assert len(counted) < LIMITS.max_attempts
    own = [one for one in counted if one.charged and not one.node_fault]
    assert sum(one.kind is FailureKind.OUTAGE for one in own) < MAX_OUTAGES
    known = [one for one in own if one.kind is not FailureKind.OUTAGE and one.progressed is False]
    # The limit applies when an attempt that counts has ended: one with a bad node goes on.
    alike = Counter(one.fingerprint for one in known)
    assert all(count <= LIMITS.max_same_failure for count in alike.values())
    assert len(known) <= 2 * LIMITS.max_same_failure
    assert not any(one.kind is FailureKind.PROGRAM for one in known)


def test_a_job_that_always_makes_progress_is_never_held() -> None:
    for seed in range(300):
        life = Life(random.Random(seed), opted_in=True)
        life.opted_in, life._progress, life._unknown = True, 1.0, 0.0
        life._kinds = [kind for kind in life._kinds if kind is not FailureKind.PROGRAM]
        if not life._kinds:
            continue
        for _ in range(60):
            facts = life.attempt()
            assert decide(facts, LIMITS, life.now).next is not Next.HOLD
            life.record(facts)


def test_an_outage_of_half_an_hour_holds_no_job() -> None:
    """Each attempt fails at once while the storage is away; then the job goes on."""
    for minutes in range(31):
        past: list[PastAttempt] = []
        now, back = START, START + timedelta(minutes=minutes)
        while now < back:
            current = PastAttempt(
                fingerprint=f"S02:{len(past) % 2}",
                progressed=None,
                kind=FailureKind.OUTAGE,
                ended_at=now,
            )
            decision = decide(JobFacts(exit_code=1, current=current, past=past), LIMITS, now)
            assert decision.next is Next.RESTART
            past.append(current)
            now += timedelta(seconds=5 + decision.delay_s)
        assert now - back <= timedelta(minutes=20)
