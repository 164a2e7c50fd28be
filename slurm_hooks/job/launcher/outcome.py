"""From what one attempt left behind to the policy's words (``holdfast.policy.job``), and to the
journal's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from holdfast.policy.job import FailureKind, JobFacts, NodeEvidence, PastAttempt
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.diagnosis.causes import Cause, Diagnosis, Line, diagnose
from slurm_hooks.job.launcher.node_faults import Sight
from slurm_hooks.job.launcher.past_attempts import Past, is_newer
from slurm_hooks.job.signatures import Kind, Retry, Suspect
from slurm_hooks.job.step.step import StepEnd

_OURS = frozenset({Kind.GPU, Kind.HOST, Kind.NETWORK, Kind.STORAGE, Kind.SCHEDULER})
_NATIVE_CRASH = frozenset({"Segmentation fault", "Bus error", "Illegal instruction"})
"""Deaths of a rank that may be its node's memory: the second one there counts (recovery.md 3.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended, in the terms that later attempts compare.

    ``exit_code`` None: it was not started. ``cause`` None: its output does not tell.
    """

    exit_code: int | None
    fingerprint: str
    progressed: bool | None
    kind: FailureKind
    suspects: frozenset[SlurmName]
    cause: Cause | None

    def record(self) -> dict[str, object]:
        """For the journal; ``history`` reads it back."""
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


def ending(
    end: StepEnd, choice: Choice, newest_step: int | None, nodes: Sequence[SlurmName]
) -> AttemptEnd:
    """``newest_step`` is that of the newest whole checkpoint now; ``nodes`` are the job's."""
    found = diagnose(
        Line(file="stderr", number=number, text=text)
        for number, text in enumerate(end.tail, start=1)
    )
    # That a task died is what the fingerprint says anyway, and better.
    cause = found.cause if found.cause and found.cause.signature.code != "L05" else None
    lone = _lone_node(cause, end, nodes)
    return AttemptEnd(
        exit_code=end.exit_code or 1,
        fingerprint=cause.fingerprint if cause else _plain_fingerprint(end),
        progressed=_progressed(choice, newest_step),
        kind=FailureKind.UNKNOWN if lone else _kind(cause),
        suspects=(_suspects(found, end) | lone) & frozenset(nodes),
        cause=cause,
    )


def _plain_fingerprint(end: StepEnd) -> str:
    if end.deaths and not end.ended_why:
        first = end.deaths[0]
        return f"exit:{first.code}" if first.code is not None else f"death:{first.how}"
    return f"status:{end.status}"


def _progressed(choice: Choice, newest_step: int | None) -> bool | None:
    start = choice.chosen.step if choice.chosen else None
    if choice.chosen and start is None:
        return None  # names without steps: cannot be told
    return is_newer(newest_step, start)


def _kind(cause: Cause | None) -> FailureKind:
    if cause is None:
        return FailureKind.UNKNOWN
    if cause.signature.kind in _OURS:
        return FailureKind.INFRASTRUCTURE
    return FailureKind.USER if cause.signature.retry is Retry.NEVER else FailureKind.UNKNOWN


def _suspects(found: Diagnosis, end: StepEnd) -> frozenset[SlurmName]:
    hosts = set(found.suspects)
    hosts |= {one.host for one in end.deaths[:1] if one.how in _NATIVE_CRASH}
    return frozenset(SlurmName(host) for host in hosts)


def _lone_node(
    cause: Cause | None, end: StepEnd, nodes: Sequence[SlurmName]
) -> frozenset[SlurmName]:
    """The one node of several that misses what the others have: a mount may be gone there."""
    if cause is None or cause.signature.suspect is not Suspect.ONE_NODE or len(nodes) < 2:
        return frozenset()
    first = end.deaths[0].code if end.deaths else None
    failed = {SlurmName(one.host) for one in end.deaths if one.code == first is not None}
    return frozenset(failed) & frozenset(nodes) if len(failed) == 1 else frozenset()


def facts(
    sight: Sight, ended: AttemptEnd, history: Sequence[Past], node_count: int, job_fault: str = ""
) -> JobFacts:
    """Everything that the policy decides on. ``job_fault``: the application's own fault, in words."""
    nodes = sight.faults
    evidence = None
    if nodes is not None:
        # Drained and DOWN nodes alike: Slurm gives them to no new job; what only an agent told of is
        # not ``out_of_service``. One that is sound again needs no exclusion either.
        evidence = tuple(
            NodeEvidence(
                node=one.node,
                code=one.code,
                fatal=one.fatal,
                out_of_service=one.out_of_service or one.sound,
            )
            for one in nodes
        )
    current = PastAttempt(
        fingerprint=ended.fingerprint,
        progressed=ended.progressed,
        node_fault=bool(nodes),
        suspects=ended.suspects,
    )
    return JobFacts(
        exit_code=ended.exit_code,
        current=current,
        ended_by=sight.job.state.split("+")[0] if sight.job and sight.ended_by_slurm else "",
        requeue=sight.job.requeue if sight.job else None,
        nodes=evidence,
        past=tuple(_past(one) for one in history),
        kind=ended.kind,
        node_count=node_count,
        job_fault=job_fault,
    )


def _past(one: Past) -> PastAttempt:
    return PastAttempt(
        fingerprint=one.fingerprint,
        progressed=one.progressed,
        node_fault=one.node_fault,
        charged=one.started and one.ended and not one.told_to_end,
        suspects=frozenset(SlurmName(name) for name in one.suspects),
        ended_at=datetime.fromtimestamp(one.ended_at, tz=timezone.utc) if one.ended_at else None,
    )
