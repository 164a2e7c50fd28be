"""Turns the end of one attempt into the facts for ``holdfast.policy.job.decision`` and for the journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from holdfast.policy.job.facts import FailureKind, JobFacts, NodeEvidence, PastAttempt
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.diagnosis.lines.launcher_lines import HANG
from slurm_hooks.job.diagnosis.lines.line import Cause, Diagnosis
from slurm_hooks.job.outcome.checkpoints_left import Left
from slurm_hooks.job.outcome.node_faults import JobSnapshot
from slurm_hooks.job.past_attempts import JournalAttempt
from slurm_hooks.job.signatures import SIGNATURES, Kind, Retry, Suspect, Weight
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
_NATIVE_CRASH = frozenset({"Segmentation fault", "Bus error", "Illegal instruction"})
"""Crashes that faulty host memory may cause. The second on the same node counts against the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended; later attempts compare their own end with it.

    ``exit_code`` None: it was not started. ``cause`` None: its output shows no cause.
    """

    exit_code: int | None
    fingerprint: str
    progressed: bool | None
    kind: FailureKind
    suspects: frozenset[SlurmName]
    cause: Cause | None

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


def attempt_end(end: StepEnd, left: Left, nodes: Sequence[SlurmName]) -> AttemptEnd:
    """How the attempt ended. ``left``: what it left in the checkpoint folder; ``nodes``: the job's."""
    found = end.found
    cause = found.cause
    if cause and cause.signature.code in _SAYS_NOTHING:
        cause = None
    only_node = _only_failing_node(cause, end, nodes)
    suspects = _suspects(found, end, nodes)
    kind = _kind_of_attempt(found, cause, end, suspects, nodes, progressed=left.progressed)
    if only_node:
        kind = FailureKind.UNKNOWN
    if left.unreadable and kind is not FailureKind.NODE:
        kind = FailureKind.OUTAGE  # whatever the program made of it
    return AttemptEnd(
        exit_code=end.exit_code or 1,
        fingerprint=_fingerprint(cause) if cause else _plain_fingerprint(end),
        progressed=left.progressed,
        kind=kind,
        suspects=suspects | only_node & frozenset(nodes),
        cause=cause,
    )


def _fingerprint(cause: Cause) -> str:
    """All hangs are equal, whatever the ranks did meanwhile."""
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
        told_apart = 0 < len(suspects) < len(nodes)
        return _kind(cause, told_apart=told_apart, named=told_apart or len(suspects) == 1)
    rivals = _CAUSES & set(found.others) - {cause.signature.code}
    alone = end.exit_code == 1 and not progressed and not rivals
    return FailureKind.PROGRAM if alone else FailureKind.UNKNOWN


def _kind(cause: Cause | None, *, told_apart: bool, named: bool) -> FailureKind:
    """``told_apart``: the cause points to some of several nodes; ``named``: or to the only one."""
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
    other = FailureKind.USER if signature.retry is Retry.NEVER else FailureKind.UNKNOWN
    return _OF_KIND.get(kind, other)


def _suspects(found: Diagnosis, end: StepEnd, nodes: Sequence[SlurmName]) -> frozenset[SlurmName]:
    """Nodes of the job only: any name can stand in its output. NCCL prints full host names.

    Of a failed transfer both ends, or none: the one that reports it is the victim as often as not.
    """
    hosts = set(found.suspects)
    cause = found.cause
    if cause and cause.signature.suspect is Suspect.BOTH_ENDS:
        peer = (cause.peer or "").partition(".")[0]
        hosts = hosts if peer in nodes else set()
    hosts |= {task.host for task in end.failures[:1] if task.how in _NATIVE_CRASH}
    hosts |= {host.partition(".")[0] for host in hosts}
    return frozenset(map(SlurmName, hosts)) & frozenset(nodes)


def _only_failing_node(
    cause: Cause | None, end: StepEnd, nodes: Sequence[SlurmName]
) -> frozenset[SlurmName]:
    """The only node of several on which a file is missing, as after a lost mount; else empty."""
    if cause is None or cause.signature.suspect is not Suspect.ONE_NODE or len(nodes) < 2:
        return frozenset()
    first = end.failures[0].code if end.failures else None
    failed = {SlurmName(task.host) for task in end.failures if task.code == first is not None}
    return frozenset(failed) & frozenset(nodes) if len(failed) == 1 else frozenset()


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
