"""Decide what to do after an attempt of a job ended. Pure; the first rule that applies decides.

The order and the limits follow the survey of ByteRobust, NVRx and DLRover in the design's recovery
reference. A decision of Slurm, a user or the job itself stands. A bad node leads to a requeue on other
nodes. An outage is waited for. The same failure again without progress is attributed to the job, and a
person has to look at it before it uses more of the cluster. Slurm itself has no limit on requeues: these
limits are the only ones.

Progress resets the counts (``failure_counts``), so a job that makes progress is never held.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.policy.job import failure_counts
from holdfast.policy.job.facts import (
    FailureKind,
    JobDecision,
    JobFacts,
    Next,
    NodeEvidence,
    RetryLimits,
)
from holdfast.vocabulary import DO_NOT_REQUEUE, SlurmName

MAX_TRIES = {
    FailureKind.USER: 2,
    FailureKind.MEMORY: 2,
    FailureKind.CHECKPOINT: 2,
    FailureKind.NUMERIC: 2,
}
"""Attempts for a failure that another attempt rarely changes. Others: ``max_same_failure``."""
MAX_OUTAGES = 10
"""Failures because of outages without progress before the job is held: after more than two hours."""
OUTAGE_DELAYS_S = (15.0, 300.0, 600.0, 1200.0)
"""Waits after the first, second, third, and each later failure because of an outage: more than 30
minutes with the first four. The first is short: a busy port or a lost connection is often free again."""
DELAYS_S = (0.0, 5.0, 15.0, 60.0)
"""The same for other failures that are restarted in place."""
_SAME_NODE_TWICE = {
    FailureKind.NUMERIC: "the same numeric error twice",
    FailureKind.MEMORY: "out of memory twice",
}
"""Failures that are tried once more on other nodes, if the same one of several nodes had both."""
_FROM_CHECKPOINT = (FailureKind.UNKNOWN, FailureKind.CHECKPOINT, FailureKind.NUMERIC)
"""Failures that an older checkpoint may avoid."""
_ANY_FAILURE = 2
"""Times ``max_same_failure``: the limit for failures without progress that differ from each other."""


def decide(facts: JobFacts, limits: RetryLimits, now: datetime) -> JobDecision:
    """The launcher's next step."""
    settled = _settled(facts)
    if settled is not None:
        return settled
    attempts = failure_counts.attempts(facts, now)
    if attempts >= limits.max_attempts:
        why = f"{attempts} attempts in 24 h without progress, the limit of job.max_attempts"
        return JobDecision(next=Next.HOLD, why=why)
    if facts.nodes:
        return _on_other_nodes(facts.nodes)
    if facts.kind is FailureKind.OUTAGE:
        return _after_outage(facts, now)
    return _same_nodes(facts, limits, now)


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


def _on_other_nodes(nodes: Sequence[NodeEvidence]) -> JobDecision:
    worst = max(nodes, key=lambda node: node.fatal)
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    exclude = tuple(sorted(node.node for node in nodes if not node.out_of_service))
    return JobDecision(
        next=Next.REQUEUE, why=f"bad node {worst.node} ({worst.code}){more}", exclude=exclude
    )


def _after_outage(facts: JobFacts, now: datetime) -> JobDecision:
    """No node can be blamed, and no restart helps before the storage or the service answers again."""
    count = max(1, failure_counts.outages(facts, now))
    if count >= MAX_OUTAGES:
        why = f"{count} failures because of outages without a new checkpoint"
        return JobDecision(next=Next.HOLD, why=why)
    delay_s = OUTAGE_DELAYS_S[min(count, len(OUTAGE_DELAYS_S)) - 1]
    why = f"an outage, no node is to blame; next attempt in {_span(delay_s)}"
    return JobDecision(next=Next.RESTART, why=why, delay_s=delay_s)


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 60 else f"{seconds / 60:g} min"


def _same_nodes(facts: JobFacts, limits: RetryLimits, now: datetime) -> JobDecision:
    """No node is known to be bad: the crash-loop guard decides between a restart, a requeue and hold."""
    if facts.kind is FailureKind.PROGRAM:
        why = "user error: the program has a syntax error or cannot import a module"
        return JobDecision(next=Next.FAIL, why=why)
    if (
        facts.kind is FailureKind.USER
        and facts.most_ranks
        and not failure_counts.may_have_progressed(facts)
    ):
        why = "user error: the same on most ranks, and no attempt has made progress"
        return JobDecision(next=Next.HOLD, why=_with_job_fault(why, facts))
    same = failure_counts.same_failures(facts, now)
    fruitless = failure_counts.failures_without_progress(facts, now)
    is_within_limits = (
        same < limits.max_same_failure and fruitless < _ANY_FAILURE * limits.max_same_failure
    )
    suspects = _to_exclude(facts, same, now)
    if suspects and facts.kind in _SAME_NODE_TWICE and is_within_limits:
        why = f"{_SAME_NODE_TWICE[facts.kind]}, attributed to {', '.join(suspects)}"
        return JobDecision(next=Next.REQUEUE, why=why, exclude=suspects)
    if facts.next_checkpoint and facts.kind in _FROM_CHECKPOINT:
        # Each attempt leaves fewer checkpoints in question, so this ends. A job that fails from all of
        # them is held.
        why = f"the checkpoint may be bad; next: {facts.next_checkpoint}"
        return JobDecision(next=Next.RESTART, why=_with_job_fault(why, facts))
    most = limits.max_same_failure
    if same >= min(most, MAX_TRIES.get(facts.kind, most)):
        why = f"the same failure {same} times without a new checkpoint"
        return JobDecision(next=Next.HOLD, why=_with_job_fault(why, facts))
    if fruitless >= _ANY_FAILURE * limits.max_same_failure:
        why = f"{fruitless} failures in a row without a new checkpoint"
        return JobDecision(next=Next.HOLD, why=_with_job_fault(why, facts))
    if suspects:
        how = "its output" if facts.kind is FailureKind.NODE else "the same failure twice"
        why = f"{how}, attributed to {', '.join(suspects)}"
        return JobDecision(next=Next.REQUEUE, why=why, exclude=suspects)
    delay_s = DELAYS_S[min(max(fruitless - 1, 0), len(DELAYS_S) - 1)]
    why = "no node of the job is known to be bad"
    if facts.nodes is None:
        why = "Slurm did not report the state of the job's nodes"
    return JobDecision(next=Next.RESTART, why=_with_job_fault(why, facts), delay_s=delay_s)


def _with_job_fault(why: str, facts: JobFacts) -> str:
    return f"{why}; application fault: {facts.job_fault}" if facts.job_fault else why


def _to_exclude(facts: JobFacts, same: int, now: datetime) -> tuple[SlurmName, ...]:
    """Nodes that the next run must avoid: those that the output names as faulty, or those that this
    failure and an equal one before are attributed to.

    None if these are all of several nodes, since then the output does not tell them apart, and none if
    the cluster has too few others: the job would wait for ever.
    """
    if facts.kind in (FailureKind.USER, FailureKind.CHECKPOINT) or not facts.requeue:
        return ()
    suspects = facts.current.suspects
    alone = facts.kind is FailureKind.NODE and (facts.node_count == 1 or facts.both_ends)
    if facts.kind is FailureKind.NUMERIC:
        # Silent data corruption comes back at any step, so progress between two failures proves nothing.
        before = failure_counts.alike_before_progress(facts, now)
        suspects = suspects & before.suspects if before else frozenset()
    elif facts.kind is not FailureKind.NODE:
        before = failure_counts.same_before(facts, now)
        suspects = suspects & before.suspects if same > 1 and before else frozenset()
    told_apart = alone or len(suspects) < facts.node_count
    enough = facts.spares is None or facts.spares >= len(suspects)
    return tuple(sorted(suspects)) if told_apart and enough else ()
