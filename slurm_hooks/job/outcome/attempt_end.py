"""Turns the end of one attempt into the facts for ``holdfast.policy.job.decision`` and for the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from holdfast.policy.job.facts import FailureKind, JobFacts, NodeEvidence, PastAttempt
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.diagnosis.lines.launcher_lines import HANG
from slurm_hooks.job.diagnosis.lines.line import Cause, Diagnosis
from slurm_hooks.job.outcome.checkpoints_left import Left
from slurm_hooks.job.outcome.node_faults import JobSnapshot
from slurm_hooks.job.outcome.suspects import (
    NO_ADDRESSES,
    are_both_ends,
    failing_host,
    is_of_most_ranks,
    killed_on,
    only_failing_node,
    suspected,
)
from slurm_hooks.job.past_attempts import JournalAttempt
from slurm_hooks.job.signatures import SIGNATURES, Kind, Retry, Weight
from slurm_hooks.job.step.run_step import StepEnd

_INFRASTRUCTURE = frozenset({Kind.GPU, Kind.HOST, Kind.NETWORK, Kind.STORAGE, Kind.SCHEDULER})
_OF_KIND = {
    **dict.fromkeys(_INFRASTRUCTURE, FailureKind.INFRASTRUCTURE),
    Kind.CHECKPOINT: FailureKind.CHECKPOINT,
    Kind.NUMERIC: FailureKind.NUMERIC,
}
_CAUSES = frozenset(
    row.code
    for row in SIGNATURES
    if row.kind not in (Kind.CASCADE, Kind.PROGRESS, Kind.SCHEDULER)
    and row.weight.value > Weight.CONSEQUENCE.value
)
_SAYS_NOTHING = frozenset({"L05", "L10"})
"""A task failed, or the step was ended. Neither adds to the fingerprint, which holds the task's exit code."""
_OOM_KILL = frozenset({"M01", "K17"})
"""The kernel has killed a task for its memory, in Slurm's words or its own. Which of them comes first differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended; later attempts compare their own end with it.

    ``exit_code`` None: it was not started. ``cause`` None: its output shows no cause.
    ``both_ends``  the suspects are the two ends of a transfer.
    ``most_ranks`` most ranks failed by themselves with this cause.
    ``host``       of the task that failed first; None: not known.
    """

    exit_code: int | None
    fingerprint: str
    progressed: bool | None
    kind: FailureKind
    suspects: frozenset[SlurmName]
    cause: Cause | None
    both_ends: bool = False
    most_ranks: bool = False
    host: SlurmName | None = None

    def record(self) -> dict[str, object]:
        """For the journal; ``past_attempts`` reads it."""
        return {
            "fingerprint": self.fingerprint,
            "progressed": self.progressed,
            "kind": self.kind.value,
            "suspects": sorted(self.suspects),
            "cause": self.cause.signature.code if self.cause else "",
            "cause_text": self.cause.line.text.strip()[:300] if self.cause else "",
        }


NOT_STARTED = AttemptEnd(
    exit_code=None,
    fingerprint="not-started",
    progressed=None,
    kind=FailureKind.INFRASTRUCTURE,
    suspects=frozenset(),
    cause=None,
)


def attempt_end(
    end: StepEnd,
    left: Left,
    nodes: Sequence[SlurmName],
    *,
    tasks: int = 0,
    addresses: Mapping[str, SlurmName] = NO_ADDRESSES,
) -> AttemptEnd:
    """How the attempt ended. ``left``: what it left in the checkpoint folder; ``nodes``: the job's, and the
    ``addresses`` of some of them; ``tasks``: how many its step has, 0: not known."""
    found = end.found
    cause = found.cause
    if cause and cause.signature.code in _SAYS_NOTHING:
        cause = None
    only_node = only_failing_node(cause, end, nodes)
    suspects = suspected(found, end, nodes, addresses)
    kind = _kind_of_attempt(found, cause, end, suspects, nodes, progressed=left.progressed)
    if only_node:
        kind = FailureKind.UNKNOWN
    if left.unreadable and kind is not FailureKind.NODE:
        kind = FailureKind.OUTAGE  # whatever the program made of it
    if not suspects and kind in (FailureKind.UNKNOWN, FailureKind.MEMORY):
        suspects = killed_on(end, nodes)
    return AttemptEnd(
        exit_code=end.exit_code or 1,
        fingerprint=_fingerprint(cause) if cause else _plain_fingerprint(end),
        progressed=left.progressed,
        kind=kind,
        suspects=suspects | only_node & frozenset(nodes),
        cause=cause,
        both_ends=are_both_ends(cause, suspects),
        most_ranks=bool(tasks) and is_of_most_ranks(found, end, tasks),
        host=failing_host(end),
    )


def _fingerprint(cause: Cause) -> str:
    """All hangs are equal, whatever the ranks did meanwhile."""
    if cause.signature.code in _OOM_KILL:
        return "oom-kill"
    return HANG.code if cause.signature is HANG else cause.fingerprint


def _plain_fingerprint(end: StepEnd) -> str:
    if end.failures and not end.ended_why:
        first = end.failures[0]
        return f"exit:{first.code}" if first.code is not None else f"killed:{first.how}"
    return f"status:{end.status}"


def _kind_of_attempt(
    found: Diagnosis,
    cause: Cause | None,
    end: StepEnd,
    suspects: frozenset[SlurmName],
    nodes: Sequence[SlurmName],
    *,
    progressed: bool | None,
) -> FailureKind:
    """PROGRAM only if nothing else explains the failure: programs also log exceptions that they
    handle, as for an optional module, and then fail for another reason."""
    if cause is None or cause.signature.retry is not Retry.NOT_AT_ALL:
        told_apart = 0 < len(suspects) < len(nodes) or are_both_ends(cause, suspects)
        return _kind(cause, told_apart=told_apart, named=told_apart or len(suspects) == 1)
    rivals = _CAUSES & set(found.others) - {cause.signature.code}
    alone = end.exit_code == 1 and not progressed and not rivals
    return FailureKind.PROGRAM if alone else FailureKind.UNKNOWN


def _kind(cause: Cause | None, *, told_apart: bool, named: bool) -> FailureKind:
    """``told_apart``: the cause points to some of several nodes, or to both ends of a transfer; ``named``: or to
    the only one."""
    if cause is None:
        return FailureKind.UNKNOWN
    signature = cause.signature
    weight, kind = signature.weight, signature.kind
    if weight.value <= Weight.CONSEQUENCE.value:
        return FailureKind.UNKNOWN  # a peer was lost, and nothing tells why
    if signature.retry is Retry.AFTER_A_WHILE and not told_apart:
        return FailureKind.OUTAGE
    if weight is Weight.WEAK and kind is not Kind.NETWORK:
        return FailureKind.UNKNOWN  # a process was killed, and nothing tells why
    if signature.retry is Retry.EXCLUDING and weight is Weight.FATAL and named:
        return FailureKind.NODE
    if kind is Kind.NETWORK and weight is not Weight.WEAK and not told_apart:
        return FailureKind.OUTAGE  # the fabric
    if (kind is Kind.COLLECTIVE_TIMEOUT or signature is HANG) and told_apart:
        return FailureKind.NODE  # the others waited for the ranks there
    if signature.code in _OOM_KILL:
        return FailureKind.MEMORY
    other = FailureKind.USER if signature.retry is Retry.NEVER else FailureKind.UNKNOWN
    return _OF_KIND.get(kind, other)


def after_transfer(
    ended: AttemptEnd, history: Sequence[JournalAttempt], spares: int | None
) -> AttemptEnd:
    """A transfer between two known nodes failed: both are suspects. It is an outage of the network if no other
    nodes are free, or if it has failed in the same way between two others before."""
    if not ended.both_ends or ended.kind is not FailureKind.NODE:
        return ended
    failed = [past for past in history if past.failed][-1:]
    before = [past.suspects for past in failed if past.fingerprint == ended.fingerprint]
    elsewhere = any(names and ended.suspects.isdisjoint(names) for names in before)
    if not elsewhere and (spares is None or spares >= len(ended.suspects)):
        return ended
    return replace(ended, kind=FailureKind.OUTAGE, suspects=frozenset(), both_ends=False)


def facts(
    snapshot: JobSnapshot,
    ended: AttemptEnd,
    history: Sequence[JournalAttempt],
    node_count: int,
    job_fault: str = "",
) -> JobFacts:
    """The input of the policy. ``job_fault``: the application's own fault as text."""
    nodes = snapshot.faults
    evidence = None
    if nodes is not None:
        # Slurm starts no new job on drained and DOWN nodes. A node with a fault that only its agent
        # reported is still in service. A node that is usable again needs no exclusion either.
        evidence = tuple(
            NodeEvidence(
                node=fault.node,
                code=fault.code,
                fatal=fault.fatal,
                out_of_service=fault.out_of_service or fault.usable_again,
            )
            for fault in nodes
        )
    current = PastAttempt(
        fingerprint=ended.fingerprint,
        progressed=ended.progressed,
        kind=ended.kind,
        node_fault=bool(nodes),
        suspects=ended.suspects,
    )
    return JobFacts(
        exit_code=ended.exit_code,
        current=current,
        ended_by=snapshot.job.state.split("+")[0]
        if snapshot.job and snapshot.ended_by_slurm
        else "",
        requeue=snapshot.job.requeue if snapshot.job else None,
        nodes=evidence,
        past=tuple(map(_past, history)),
        node_count=node_count,
        job_fault=job_fault,
        both_ends=ended.both_ends,
        most_ranks=ended.most_ranks,
    )


def _past(attempt: JournalAttempt) -> PastAttempt:
    at = attempt.ended_at
    return PastAttempt(
        fingerprint=attempt.fingerprint,
        progressed=attempt.progressed,
        kind=_kind_named(attempt.kind),
        node_fault=attempt.node_fault,
        charged=attempt.started and attempt.ended and not attempt.terminated,
        by_others=attempt.terminated,
        settled=attempt.settled,
        suspects=frozenset(SlurmName(name) for name in attempt.suspects),
        ended_at=datetime.fromtimestamp(at, tz=timezone.utc) if at else None,
    )


def _kind_named(name: str) -> FailureKind:
    try:
        return FailureKind(name)
    except ValueError:
        return FailureKind.UNKNOWN  # of another version of Holdfast
