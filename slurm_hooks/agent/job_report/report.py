"""The report about one run of a job: the report file, and the incidents for the job's comment.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.faults import fault_of
from holdfast.records.incidents import STEPD_KILLED, Attribution, Incident, attribution_of, verdict
from slurm_hooks.agent.job_runs import counter_deltas
from slurm_hooks.agent.job_runs.runs import JobRun, JobXid

VERSION = 1
MAX_LISTED = 64
"""Processes listed in a report: a user may leave tens of thousands, and /run is in memory."""
LEFTOVER, UNKILLABLE = "JOB_LEFTOVER", "JOB_UNKILLABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A process that outlived its job.

    ``fate``       alive, ended (by the agent), gone (by itself), unkillable.
    ``confirmed``  it certainly belongs to this job; only such processes are killed.
    ``gpus``       indices of the GPUs whose memory it holds; ``used_bytes``: of all of them together.
    ``state``      the kernel's state letter if SIGKILL did not end it (D: uninterruptible sleep).
    """

    pid: int
    start: int
    command: str = ""
    step: str = ""
    fate: str = "alive"
    confirmed: bool = True
    gpus: tuple[int, ...] = ()
    used_bytes: int | None = None
    state: str = ""

    @property
    def code(self) -> str:
        """Its fault code; empty for a process that holds no GPU and may still end by itself."""
        if self.fate == "unkillable":
            return UNKILLABLE
        return LEFTOVER if self.fate == "alive" and self.gpus else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLeft:
    """A GPU on which more memory is in use after the job than before it."""

    gpu: int
    before_bytes: int
    after_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What a run left behind. ``blind``: why not every process could be read. ``final``: the run's
    end was checked and the report does not change any more."""

    final: bool = False
    left: tuple[Leftover, ...] = ()
    memory: tuple[MemoryLeft, ...] = ()
    blind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where and when the report is made. ``epoch_of_boot`` turns seconds since boot into epoch
    seconds; ``observe_only``: the checks in mode observe."""

    node: str
    boot_id: str
    epoch_of_boot: float
    observe_only: frozenset[str] = frozenset()

    def epoch(self, at_s: float) -> int:
        return int(self.epoch_of_boot + at_s)


def evidence(run: JobRun, left: Sequence[Leftover], place: Place) -> tuple[Incident, ...]:
    """The incidents of this run. None if its user skipped the checks."""
    return () if run.skip else tuple(_entries(run, left, place))


def _entries(run: JobRun, left: Sequence[Leftover], place: Place) -> Iterator[Incident]:
    for xid in consequential(run.xids):
        yield Incident(
            code=f"XID{xid.xid}",
            node=place.node,
            gpu=xid.gpu,
            step=xid.step,
            pid=xid.pid,
            count=xid.count,
            at=place.epoch(xid.at_s),
            run=run.restarts,
            observe_only="gpu_xid" in place.observe_only,
        )
    for lost in run.lost_steps:
        yield Incident(
            code=STEPD_KILLED,
            node=place.node,
            step=lost.step,
            at=place.epoch(lost.at_s),
            run=run.restarts,
        )
    at = place.epoch(run.ended_s if run.ended_s is not None else run.started_s)
    for watched, counted, count in counter_deltas.counts(run.deltas):
        if watched.is_evidence(count):
            yield Incident(
                code=watched.code,
                node=place.node,
                gpu=counted.gpu,
                count=count,
                at=at,
                run=run.restarts,
                observe_only=watched.check in place.observe_only,
            )
    for code in (UNKILLABLE, LEFTOVER):
        count = sum(leftover.code == code for leftover in left)
        if count:
            yield Incident(
                code=code,
                node=place.node,
                count=count,
                at=at,
                run=run.restarts,
                observe_only="job_leftovers" in place.observe_only,
            )


def consequential(xids: Sequence[JobXid]) -> tuple[JobXid, ...]:
    """The Xids without 45, which only reports that a process was killed."""
    return tuple(xid for xid in xids if xid.xid != _KILLED)


_KILLED = 45


def document(run: JobRun, remains: Remains, place: Place) -> dict[str, Any]:
    """The report file's content; keys as documented in docs/reference/job-reports.md."""
    entries = evidence(run, remains.left, place)
    evaluated = not run.skip and not run.no_judgement and run.baseline_s is not None
    return {
        "version": VERSION,
        "job": run.job,
        "run": run.restarts,
        "het_job": run.het_job,
        "node": place.node,
        "boot_id": place.boot_id,
        "uid": run.uid,
        "gpus": None if run.gpus is None else sorted(run.gpus),
        "started_at": place.epoch(run.started_s),
        "ended_at": None if run.ended_s is None else place.epoch(run.ended_s),
        "final": remains.final,
        "evaluated": evaluated and remains.final,
        "not_evaluated_reason": _not_evaluated_reason(run, remains.final),
        "baseline_after_s": None
        if run.baseline_s is None
        else round(run.baseline_s - run.started_s, 3),
        "attribution": verdict(entries).value,
        "xids": [_xid(xid, place) for xid in run.xids],
        "counters": _counters(run),
        "unknown_counters": list(counter_deltas.unknown(run.deltas)) if evaluated else [],
        "leftovers": [asdict(leftover) for leftover in remains.left[:MAX_LISTED]],
        "leftovers_total": len(remains.left),
        "leftovers_unknown": remains.blind,
        "gpu_memory_not_released": [asdict(memory) for memory in remains.memory[:MAX_LISTED]],
    }


def _not_evaluated_reason(run: JobRun, final: bool) -> str:
    if run.skip:
        return "the user skipped the checks (skip_checks)"
    if run.no_judgement:
        return run.no_judgement
    if run.baseline_s is None and run.ended_s is not None:
        return "it ended before a baseline was taken"
    return (
        ""
        if final
        else "it is still running"
        if run.ended_s is None
        else "its end is being checked"
    )


def _xid(xid: JobXid, place: Place) -> dict[str, Any]:
    code = f"XID{xid.xid}"
    return {
        "code": code,
        "title": fault_of(code).title,
        "attribution": attribution_of(code).value,
        "gpu": xid.gpu,
        "uuid": xid.uuid,
        "step": xid.step,
        "pid": xid.pid,
        "attribution_method": xid.how,
        "confirmed": xid.sure,
        "count": xid.count,
        "at": place.epoch(xid.at_s),
        "text": xid.text,
    }


def _counters(run: JobRun) -> list[Mapping[str, Any]]:
    return [
        {
            "name": watched.name,
            "title": watched.title,
            "code": watched.code,
            "subject": counted.subject,
            "gpu": counted.gpu,
            "count": count,
            "resets": counted.resets,
            "attribution": attribution_of(watched.code).value
            if watched.is_evidence(count)
            else Attribution.NONE.value,
        }
        for watched, counted, count in counter_deltas.counts(run.deltas)
    ]
