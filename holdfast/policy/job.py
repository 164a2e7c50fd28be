"""What to do after an attempt of a job ended: pure, the first rule that fits decides.

Order and budgets after the survey of ByteRobust, NVRx and DLRover in the design's recovery
reference: what somebody else decided stands; a bad node means another node, not another try; the
same failure without progress is the job's own, and a person looks at it before it eats the cluster.
Slurm itself has no limit on requeues, so this module is the only one.

Progress resets the counters. Unknown progress is not zero progress: such an attempt is not counted
against the job (``max_attempts`` still bounds it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from holdfast.vocabulary import DO_NOT_REQUEUE, SlurmName

WINDOW = timedelta(hours=24)
"""``max_attempts`` counts the attempts that ended within it."""

_USER_TRIES = 2
"""Attempts that an error of the user's own (a usage error, a missing file) may take."""
_ANY_FAILURE = 2
"""Times ``max_same_failure``: failures without progress that need not be alike."""


class Next(str, Enum):
    """What the launcher does next."""

    FINISH = "finish"
    FAIL = "fail"
    """End the job as failed; nothing starts again."""
    RESTART = "restart"
    """Start the ranks again here, in this allocation."""
    REQUEUE = "requeue"
    HOLD = "hold"
    """Requeue held: a person looks before it runs again."""


class FailureKind(str, Enum):
    """Whose failure the attempt's own output says it is."""

    UNKNOWN = "unknown"
    INFRASTRUCTURE = "infrastructure"
    USER = "user"
    """Deterministic: the same command fails the same way on any node."""
    PROGRAM = "program"
    """The program cannot run: a syntax error or a missing module. No retry can succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvidence:
    """What speaks against a node of the job. ``out_of_service``: it need not be named in ExcNodeList, since Slurm
    gives it to no new job by itself, or since it is sound again."""

    node: SlurmName
    code: str
    fatal: bool
    out_of_service: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """How an earlier attempt ended.

    ``fingerprint``  equal for failures that look alike; empty: nothing to compare.
    ``progressed``   it left a newer checkpoint than it started from; None: cannot be told.
    ``node_fault``   a node was at fault: says nothing against the job.
    ``charged``      False for preemption, requeue by somebody, a launcher that died with its node.
    ``suspects``     nodes that its output blames.
    """

    fingerprint: str
    progressed: bool | None
    node_fault: bool = False
    charged: bool = True
    suspects: frozenset[SlurmName] = frozenset()
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Everything that the decision rests on.

    ``exit_code``    of the attempt; None: it was not started (a node was bad before).
    ``ended_by``     empty, or who ended it from outside: ``CANCELLED``, ``TIMEOUT``, …
    ``requeue``      the job may be requeued; None: slurmctld does not answer.
    ``nodes``        evidence against its nodes; None: could not look.
    ``current``      the attempt that just ended, in the same words as the earlier ones.
    ``past``         earlier attempts, oldest first.
    ``node_count``   nodes of the allocation.
    ``job_fault``    what the nodes' agents saw that is the application's own fault; empty: nothing.
    """

    exit_code: int | None
    current: PastAttempt
    ended_by: str = ""
    requeue: bool | None = True
    nodes: tuple[NodeEvidence, ...] | None = ()
    past: Sequence[PastAttempt] = ()
    kind: FailureKind = FailureKind.UNKNOWN
    node_count: int = 1
    job_fault: str = ""


class Limits(Protocol):
    """Of the ``job`` section: attempts within 24 h, and alike failures without progress."""

    @property
    def max_attempts(self) -> int: ...
    @property
    def max_same_failure(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """``exclude``: nodes that a requeued job must not get; those that are out anyway are not named.

    ExcNodeList stays with the job for good, so it is only for nodes that Slurm would give again.
    ``delay_s``: wait so long before a restart in place.
    """

    next: Next
    why: str
    exclude: tuple[SlurmName, ...] = ()
    delay_s: float = 0.0


_DELAYS_S = (0.0, 5.0, 15.0, 60.0)


def decide(facts: JobFacts, limits: Limits, now: datetime) -> Decision:
    """The launcher's next move."""
    settled = _settled(facts)
    if settled is not None:
        return settled
    attempts = 1 + sum(_is_recent(one, now) for one in facts.past)
    if attempts >= limits.max_attempts:
        why = f"{attempts} attempts in 24 h, as many as job.max_attempts allows"
        return Decision(next=Next.HOLD, why=why)
    if facts.nodes:
        return _elsewhere(facts.nodes)
    return _same_nodes(facts, limits)


def _settled(facts: JobFacts) -> Decision | None:
    """What is not ours to decide: success, somebody's will, the job's own word."""
    if facts.exit_code == 0 and not facts.ended_by:
        return Decision(next=Next.FINISH, why="the command ended with exit code 0")
    if facts.ended_by:
        return Decision(next=Next.FAIL, why=f"ended from outside ({facts.ended_by})")
    if facts.exit_code == DO_NOT_REQUEUE:
        why = f"exit code {DO_NOT_REQUEUE}: the job asks for no further attempt"
        return Decision(next=Next.FAIL, why=why)
    if facts.requeue is False:
        return Decision(next=Next.FAIL, why="the job was submitted with --no-requeue")
    return None


def _is_recent(attempt: PastAttempt, now: datetime) -> bool:
    return attempt.ended_at is None or now - attempt.ended_at <= WINDOW


def _elsewhere(nodes: Sequence[NodeEvidence]) -> Decision:
    worst = max(nodes, key=lambda one: one.fatal)
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    exclude = tuple(sorted(one.node for one in nodes if not one.out_of_service))
    return Decision(
        next=Next.REQUEUE, why=f"bad node {worst.node} ({worst.code}){more}", exclude=exclude
    )


def _same_nodes(facts: JobFacts, limits: Limits) -> Decision:
    """No node is known to be bad: the crash-loop guard decides between here, elsewhere and hold."""
    if facts.kind is FailureKind.PROGRAM:
        why = "user error: the program has a syntax error or cannot import a module"
        return Decision(next=Next.FAIL, why=why)
    alike = failures_alike(facts)
    most = limits.max_same_failure
    if facts.kind is FailureKind.USER:
        most = min(most, _USER_TRIES)
    if alike >= most:
        why = f"the same failure {alike} times without a new checkpoint"
        return Decision(next=Next.HOLD, why=_blaming(why, facts))
    fruitless = failures_without_progress(facts)
    if fruitless >= _ANY_FAILURE * limits.max_same_failure:
        why = f"{fruitless} failures in a row without a new checkpoint"
        return Decision(next=Next.HOLD, why=_blaming(why, facts))
    suspects = _suspected_twice(facts)
    if suspects:
        why = f"the second failure alike that points at {', '.join(suspects)}"
        return Decision(next=Next.REQUEUE, why=why, exclude=suspects)
    delay_s = _DELAYS_S[min(max(fruitless - 1, 0), len(_DELAYS_S) - 1)]
    seen = "no node of the job is known to be bad"
    if facts.nodes is None:
        seen = "Slurm could not be asked about the nodes"
    return Decision(next=Next.RESTART, why=_blaming(seen, facts), delay_s=delay_s)


def _blaming(why: str, facts: JobFacts) -> str:
    return f"{why}; the job's own fault: {facts.job_fault}" if facts.job_fault else why


def _counts(attempt: PastAttempt) -> bool:
    """A failure of the job's own that is known to have brought nothing."""
    return attempt.charged and not attempt.node_fault and attempt.progressed is False


def _since_progress(facts: JobFacts) -> list[PastAttempt]:
    """The attempts after the last one that is known to have made progress, newest first."""
    found: list[PastAttempt] = []
    for attempt in (facts.current, *reversed(facts.past)):
        if attempt.progressed:
            break
        found.append(attempt)
    return found


def failures_alike(facts: JobFacts) -> int:
    """How often in a row the job failed as it did now, without progress; 0 when this is unknown."""
    if not _counts(facts.current):
        return 0
    count = 0
    for attempt in filter(_counts, _since_progress(facts)):
        if attempt.fingerprint != facts.current.fingerprint:
            break
        count += 1
    return count


def failures_without_progress(facts: JobFacts) -> int:
    """How many attempts failed by themselves since the last progress, whatever they looked like."""
    return sum(map(_counts, _since_progress(facts)))


def _suspected_twice(facts: JobFacts) -> tuple[SlurmName, ...]:
    """Nodes that this failure and the one before blame alike; none when that would be all nodes."""
    if failures_alike(facts) < 2 or facts.kind is FailureKind.USER or not facts.requeue:
        return ()
    before = next(filter(_counts, reversed(facts.past)))
    suspects = facts.current.suspects & before.suspects
    return tuple(sorted(suspects)) if len(suspects) < facts.node_count else ()
