"""Decide what to do after an attempt of a job ended. Pure; the first rule that applies decides.

The order and the limits follow the survey of ByteRobust, NVRx and DLRover in the design's recovery
reference. A decision of Slurm, a user or the job itself stands. A bad node leads to a requeue on other
nodes. The same failure again without progress is attributed to the job, and a person has to look at it
before it uses more of the cluster. Slurm itself has no limit on requeues: these limits are the only ones.

Progress resets the counters. Unknown progress is not zero progress: such an attempt is not counted
against the job (``max_attempts`` still applies).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from holdfast.vocabulary import DO_NOT_REQUEUE, SlurmName

WINDOW = timedelta(hours=24)
"""The time within which attempts count towards ``max_attempts``."""

_USER_TRIES = 2
"""Attempts for a user error (wrong usage, a missing file)."""
_ANY_FAILURE = 2
"""Times ``max_same_failure``: the limit for failures without progress that differ from each other."""


class Next(str, Enum):
    """What the launcher does next."""

    FINISH = "finish"
    FAIL = "fail"
    """End the job as failed; it does not start again."""
    RESTART = "restart"
    """Start the ranks again in this allocation."""
    REQUEUE = "requeue"
    HOLD = "hold"
    """Requeue in the held state: a person has to release the job before it runs again."""


class FailureKind(str, Enum):
    """What the attempt's own output attributes the failure to."""

    UNKNOWN = "unknown"
    INFRASTRUCTURE = "infrastructure"
    USER = "user"
    """Deterministic: the same command fails the same way on any node."""
    PROGRAM = "program"
    """The program cannot run: a syntax error or a missing module. No retry can succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvidence:
    """Evidence against a node of the job. ``out_of_service``: the node does not have to be listed in
    ExcNodeList, since Slurm allocates it to no new job, or since it is healthy again."""

    node: SlurmName
    code: str
    fatal: bool
    out_of_service: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """How an earlier attempt ended.

    ``fingerprint``  equal for failures of the same kind; empty: nothing to compare.
    ``progressed``   it left a newer checkpoint than it started from; None: unknown.
    ``node_fault``   a node was at fault: no evidence against the job.
    ``charged``      False for preemption, a requeue by somebody, a launcher that was killed with its node.
    ``suspects``     nodes that its output attributes the failure to.
    """

    fingerprint: str
    progressed: bool | None
    node_fault: bool = False
    charged: bool = True
    suspects: frozenset[SlurmName] = frozenset()
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Everything that the decision depends on.

    ``exit_code``    of the attempt; None: it was not started (a node was bad before).
    ``ended_by``     the job state with which Slurm ended it: ``CANCELLED``, ``TIMEOUT``, …; else empty.
    ``requeue``      the job may be requeued; None: slurmctld does not answer.
    ``nodes``        evidence against its nodes; None: unknown.
    ``current``      the attempt that just ended, in the same form as the earlier ones.
    ``past``         earlier attempts, oldest first.
    ``node_count``   nodes of the allocation.
    ``job_fault``    an application fault that the nodes' agents found; empty: none.
    ``next_checkpoint``  another checkpoint, which the next attempt tries because attempts from one or
                     more failed; empty: no checkpoint is suspected, or there is no other.
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
    next_checkpoint: str = ""


class RetryLimits(Protocol):
    """From the ``job`` section: attempts within 24 h, and equal failures without progress."""

    @property
    def max_attempts(self) -> int: ...
    @property
    def max_same_failure(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDecision:
    """``exclude``: nodes that Slurm must not allocate to the requeued job. ``delay_s``: the wait before a
    restart in place.

    Nodes that are out of service are not excluded: ExcNodeList is never cleared, so it is only for nodes
    that Slurm would allocate again.
    """

    next: Next
    why: str
    exclude: tuple[SlurmName, ...] = ()
    delay_s: float = 0.0


_DELAYS_S = (0.0, 5.0, 15.0, 60.0)


def decide(facts: JobFacts, limits: RetryLimits, now: datetime) -> JobDecision:
    """The launcher's next step."""
    settled = _settled(facts)
    if settled is not None:
        return settled
    attempts = 1 + sum(_is_recent(attempt, now) for attempt in facts.past)
    if attempts >= limits.max_attempts:
        why = f"{attempts} attempts in 24 h, the limit of job.max_attempts"
        return JobDecision(next=Next.HOLD, why=why)
    if facts.nodes:
        return _on_other_nodes(facts.nodes)
    return _same_nodes(facts, limits)


def _settled(facts: JobFacts) -> JobDecision | None:
    """Decided already: by success, by Slurm or a user, or by the job itself."""
    if facts.exit_code == 0 and not facts.ended_by:
        return JobDecision(next=Next.FINISH, why="the command exited with code 0")
    if facts.ended_by:
        return JobDecision(next=Next.FAIL, why=f"ended by Slurm or a user ({facts.ended_by})")
    if facts.exit_code == DO_NOT_REQUEUE:
        why = f"exit code {DO_NOT_REQUEUE}: the job requests no further attempt"
        return JobDecision(next=Next.FAIL, why=why)
    if facts.requeue is False:
        return JobDecision(next=Next.FAIL, why="the job was submitted with --no-requeue")
    return None


def _is_recent(attempt: PastAttempt, now: datetime) -> bool:
    return attempt.ended_at is None or now - attempt.ended_at <= WINDOW


def _on_other_nodes(nodes: Sequence[NodeEvidence]) -> JobDecision:
    worst = max(nodes, key=lambda node: node.fatal)
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    exclude = tuple(sorted(node.node for node in nodes if not node.out_of_service))
    return JobDecision(
        next=Next.REQUEUE, why=f"bad node {worst.node} ({worst.code}){more}", exclude=exclude
    )


def _same_nodes(facts: JobFacts, limits: RetryLimits) -> JobDecision:
    """No node is known to be bad: the crash-loop guard decides between a restart, a requeue and hold."""
    if facts.kind is FailureKind.PROGRAM:
        why = "user error: the program has a syntax error or cannot import a module"
        return JobDecision(next=Next.FAIL, why=why)
    if facts.next_checkpoint and facts.kind is FailureKind.UNKNOWN:
        # Each attempt halves the checkpoints in question, so this ends. A job that fails from all of
        # them is held.
        why = f"the checkpoint may be bad; next: {facts.next_checkpoint}"
        return JobDecision(next=Next.RESTART, why=_with_job_fault(why, facts))
    same = same_failures(facts)
    most = limits.max_same_failure
    if facts.kind is FailureKind.USER:
        most = min(most, _USER_TRIES)
    if same >= most:
        why = f"the same failure {same} times without a new checkpoint"
        return JobDecision(next=Next.HOLD, why=_with_job_fault(why, facts))
    fruitless = failures_without_progress(facts)
    if fruitless >= _ANY_FAILURE * limits.max_same_failure:
        why = f"{fruitless} failures in a row without a new checkpoint"
        return JobDecision(next=Next.HOLD, why=_with_job_fault(why, facts))
    suspects = _suspected_twice(facts)
    if suspects:
        why = f"the same failure twice, attributed to {', '.join(suspects)}"
        return JobDecision(next=Next.REQUEUE, why=why, exclude=suspects)
    delay_s = _DELAYS_S[min(max(fruitless - 1, 0), len(_DELAYS_S) - 1)]
    why = "no node of the job is known to be bad"
    if facts.nodes is None:
        why = "Slurm did not report the state of the job's nodes"
    return JobDecision(next=Next.RESTART, why=_with_job_fault(why, facts), delay_s=delay_s)


def _with_job_fault(why: str, facts: JobFacts) -> str:
    return f"{why}; application fault: {facts.job_fault}" if facts.job_fault else why


def _counts(attempt: PastAttempt) -> bool:
    """A failure of the job itself, known to have made no progress."""
    return attempt.charged and not attempt.node_fault and attempt.progressed is False


def _since_progress(facts: JobFacts) -> list[PastAttempt]:
    """The attempts after the last one that is known to have made progress, newest first."""
    found: list[PastAttempt] = []
    for attempt in (facts.current, *reversed(facts.past)):
        if attempt.progressed:
            break
        found.append(attempt)
    return found


def same_failures(facts: JobFacts) -> int:
    """How often in a row the job failed in the same way without progress; 0: unknown."""
    if not _counts(facts.current):
        return 0
    count = 0
    for attempt in filter(_counts, _since_progress(facts)):
        if attempt.fingerprint != facts.current.fingerprint:
            break
        count += 1
    return count


def failures_without_progress(facts: JobFacts) -> int:
    """How many attempts failed in any way since the last progress."""
    return sum(map(_counts, _since_progress(facts)))


def _suspected_twice(facts: JobFacts) -> tuple[SlurmName, ...]:
    """Nodes that this failure and the previous one are attributed to; none if these are all nodes."""
    if same_failures(facts) < 2 or facts.kind is FailureKind.USER or not facts.requeue:
        return ()
    before = next(filter(_counts, reversed(facts.past)))
    suspects = facts.current.suspects & before.suspects
    return tuple(sorted(suspects)) if len(suspects) < facts.node_count else ()
