"""Counts the failures of a job that count against it. Pure.

Only failures of the last 24 hours count, and only those after the last known progress, the last success
and the last time that a person released the job. Unknown progress is not zero progress: such an attempt
is not counted against the job. An outage is no failure of the job: it has a count of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from holdfast.policy.job.facts import FailureKind, JobFacts, PastAttempt

WINDOW = timedelta(hours=24)
"""The time within which attempts and failures count."""
_COMES_BACK = frozenset({FailureKind.USER, FailureKind.MEMORY})
"""Failures that come again at the same step."""


def attempts(facts: JobFacts, now: datetime) -> int:
    """The attempts since the last progress, this one included, for ``max_attempts``. An attempt that
    Slurm or a person ended does not count."""
    return sum(not attempt.by_others for attempt in _since_progress(facts, now))


def same_failures(facts: JobFacts, now: datetime) -> int:
    """How often the job failed in the same way without progress; 0: unknown.

    For an error of the program or its memory, an equal failure of the last attempt that made progress
    counts too: the job has come to the same place again.
    """
    if not _counts(facts.current):
        return 0
    return 1 + len(_alike_before(facts, now))


def failures_without_progress(facts: JobFacts, now: datetime) -> int:
    """How many attempts failed in any way since the last progress."""
    return sum(map(_counts, _since_progress(facts, now)))


def outages(facts: JobFacts, now: datetime) -> int:
    """How many attempts failed because of outages since the last progress. It does not matter whether
    their progress is known: where the storage does not answer, it never is."""
    return sum(map(_is_outage, _since_progress(facts, now)))


def same_before(facts: JobFacts, now: datetime) -> PastAttempt | None:
    """The last failure before this one that counts against the job and is equal to it."""
    return next(iter(_alike_before(facts, now)), None)


def alike_before_progress(facts: JobFacts, now: datetime) -> PastAttempt | None:
    """The last attempt before this one that failed in the same way, whether there was progress between them."""
    before = islice(_recent(facts, now), 1, None)
    own = (one for one in before if one.charged and not one.node_fault and not one.by_others)
    return next((one for one in own if one.fingerprint == facts.current.fingerprint), None)


def may_have_progressed(facts: JobFacts) -> bool:
    """False if no attempt of the job has made progress, as far back as is known."""
    return any(attempt.progressed is not False for attempt in (facts.current, *facts.past))


def _alike_before(facts: JobFacts, now: datetime) -> list[PastAttempt]:
    """The failures before this one that count and are equal to it, newest first."""
    before = [one for one in islice(_since_progress(facts, now), 1, None) if _counts(one)]
    if facts.kind in _COMES_BACK:
        before += [attempt for attempt in _last_with_progress(facts, now) if attempt.charged]
    return [one for one in before if one.fingerprint == facts.current.fingerprint]


def _counts(attempt: PastAttempt) -> bool:
    """A failure of the job itself, known to have made no progress."""
    own = attempt.charged and not attempt.node_fault and not attempt.by_others
    return own and attempt.progressed is False and attempt.kind is not FailureKind.OUTAGE


def _is_outage(attempt: PastAttempt) -> bool:
    return attempt.kind is FailureKind.OUTAGE and attempt.charged and not attempt.node_fault


def _recent(facts: JobFacts, now: datetime) -> Iterator[PastAttempt]:
    """The attempts that may count, newest first."""
    yield facts.current
    for attempt in reversed(facts.past):
        if attempt.settled or (attempt.ended_at and now - attempt.ended_at > WINDOW):
            return
        yield attempt


def _since_progress(facts: JobFacts, now: datetime) -> Iterator[PastAttempt]:
    for attempt in _recent(facts, now):
        if attempt.progressed:
            return
        yield attempt


def _last_with_progress(facts: JobFacts, now: datetime) -> list[PastAttempt]:
    found = next((attempt for attempt in _recent(facts, now) if attempt.progressed), None)
    return [found] if found is not None and not found.by_others else []
