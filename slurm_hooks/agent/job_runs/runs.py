"""The runs of jobs on this node, and what happened to each. Pure; ``run_store`` keeps them on disk.

A run is a job and its restart count: a requeued job is another run. All times are seconds since
boot, the kernel log's own clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slurm_hooks.agent.job_runs import counter_deltas
from slurm_hooks.agent.job_runs.counter_deltas import Deltas
from slurm_hooks.agent.job_runs.hook_notes import HookNote
from slurm_hooks.facts import NodeFacts

MAX_RUNS = 256
"""Limits runs that never end here, for example after a prolog that timed out."""

MAX_LOST_STEPS = 16

Key = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobXid:
    """An Xid that happened to a run: on one of its GPUs, or by a process of it.

    ``how``    why it is attributed to the job: ``pid``, ``gpu`` or ``alone`` (the only job on the node).
    ``sure``   False if other jobs share that GPU and nothing distinguishes them.
    ``count``  how many of the same kind; ``seq``: the last one's sequence number in the kernel log.
    """

    xid: int
    pci: str
    seq: int
    at_s: float
    gpu: int | None = None
    uuid: str | None = None
    step: str = ""
    pid: int | None = None
    how: str = "gpu"
    sure: bool = True
    count: int = 1
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostStep:
    """A step of a run whose slurmstepd on this node was killed at about ``at_s``."""

    step: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of a job on this node, from its prolog to its final report.

    ``baseline_s``    when the facts of its baseline were read; None: no baseline yet.
    ``deltas``        its counters since the baseline.
    ``memory``        bytes in use on each of its GPUs at the baseline, by UUID.
    ``no_judgement``  why its counters are not judged, empty if they are.
    """

    job: int
    restarts: int
    started_s: float
    uid: int | None = None
    gpus: frozenset[int] | None = None
    het_job: int | None = None
    skip: bool = False
    ended_s: float | None = None
    baseline_s: float | None = None
    deltas: Deltas = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    xids: tuple[JobXid, ...] = ()
    lost_steps: tuple[LostStep, ...] = ()
    no_judgement: str = ""

    @property
    def key(self) -> Key:
        return (self.job, self.restarts)

    @property
    def family(self) -> int:
        """The job id in its tasks' environment: that of the leader for a het job."""
        return self.het_job if self.het_job is not None else self.job

    def lived_at(self, at_s: float) -> bool:
        """Whether it was on this node at that time."""
        return self.started_s <= at_s and (self.ended_s is None or at_s <= self.ended_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The runs on this node, by job and restart count, oldest first."""

    runs: Mapping[Key, JobRun] = field(default_factory=dict)

    def with_run(self, run: JobRun) -> Runs:
        return Runs(runs={**self.runs, run.key: run})

    def without(self, key: Key) -> Runs:
        return Runs(runs={k: run for k, run in self.runs.items() if k != key})

    @property
    def last_start_s(self) -> float:
        """Seconds since boot; 0: no run."""
        return max((run.started_s for run in self.runs.values()), default=0.0)

    def others(self, run: JobRun) -> tuple[JobRun, ...]:
        return tuple(other for other in self.runs.values() if other.key != run.key)


def started(known: Runs, note: HookNote, no_judgement: str = "") -> Runs:
    """A run began here. Earlier runs of the same job have ended."""
    key = (note.job, note.restarts)
    if key in known.runs:
        return known
    runs = {
        k: replace(run, ended_s=note.at_s) if _superseded(run, note) else run
        for k, run in known.runs.items()
    }
    runs[key] = _run(note, no_judgement)
    # The hooks leave a note for each run, so a user with many short jobs decides how many there
    # are.
    while len(runs) > MAX_RUNS:
        del runs[_excess(runs)]
    return Runs(runs=runs)


def _excess(runs: Mapping[Key, JobRun]) -> Key:
    """The run to drop: the oldest one of the user with the most runs, so that no user displaces
    another's."""
    number = Counter(run.uid for run in runs.values())
    most = max(number.values())
    return next(key for key, run in runs.items() if number[run.uid] == most)


def _run(note: HookNote, no_judgement: str) -> JobRun:
    return JobRun(
        job=note.job,
        restarts=note.restarts,
        started_s=note.at_s,
        uid=note.uid,
        gpus=note.gpus,
        het_job=note.het_job,
        skip=note.skip,
        no_judgement=no_judgement,
    )


def _superseded(run: JobRun, note: HookNote) -> bool:
    return run.job == note.job and run.restarts < note.restarts and run.ended_s is None


def ended(known: Runs, note: HookNote) -> Runs:
    """A run's epilog ran. Without a note of its prolog the run has no baseline, and is reported
    without one."""
    run = ending_run(known, note)
    if run is None:
        run = _run(note, "its prolog left no note")
    if run.ended_s is None:
        run = replace(run, ended_s=note.at_s)
    return known.with_run(replace(run, skip=run.skip or note.skip))


def ending_run(known: Runs, note: HookNote) -> JobRun | None:
    """The run that an epilog belongs to. After a requeue the epilog already gets the restart count
    of the next run (seen on 24.11.5), so the run that is open here is the one that ended."""
    mine = [run for run in known.runs.values() if run.job == note.job]
    mine = [run for run in mine if run.started_s <= note.at_s and run.restarts <= note.restarts]
    # An epilog may run twice: then its run has ended already.
    still = [run for run in mine if run.ended_s is None] or mine
    return max(still, key=lambda run: run.restarts, default=None)


def lost_step(known: Runs, job: int, step: str, at_s: float) -> JobRun | None:
    """The run of the job that is here, with this step as lost; None: there is none, or it is known."""
    here = [run for run in known.runs.values() if run.job == job and run.ended_s is None]
    run = max(here, key=lambda each: each.restarts, default=None)
    full = run is None or len(run.lost_steps) >= MAX_LOST_STEPS
    if run is None or full or any(lost.step == step for lost in run.lost_steps):
        return None
    return replace(run, lost_steps=(*run.lost_steps, LostStep(step=step, at_s=at_s)))


def saw(known: Runs, facts: NodeFacts, began_s: float, now: float) -> Runs:
    """One pass over the probes, begun at ``began_s``. ``now``: epoch seconds."""
    runs = {
        key: _saw(run, known.others(run), facts, began_s, now) for key, run in known.runs.items()
    }
    return Runs(runs=runs)


def _saw(
    run: JobRun, others: Iterable[JobRun], facts: NodeFacts, began_s: float, now: float
) -> JobRun:
    # A baseline after the end would hide exactly what is to be judged.
    if run.no_judgement or (run.ended_s is not None and run.baseline_s is None):
        return run
    if run.baseline_s is None:
        return take_baseline(run, others, facts, began_s, now)
    return replace(run, deltas=counter_deltas.grown(run.deltas, facts, now))


def take_baseline(
    run: JobRun, others: Iterable[JobRun], facts: NodeFacts, at_s: float, now: float
) -> JobRun:
    """The run with its baseline from facts read at ``at_s``, before it began or soon after.

    Facts from before another job's end on the same GPUs are not used: that job's last errors would
    be attributed to this run.
    """
    # The probe did not see its GPUs in this pass: another pass may.
    if run.gpus and not any(gpu.index in run.gpus for gpu in facts.gpus):
        return run
    if any(
        other.ended_s is not None and other.ended_s >= at_s and _may_share(other, run)
        for other in others
    ):
        return run
    memory = {
        gpu.uuid: gpu.memory_used_bytes
        for gpu in facts.gpus
        if gpu.index in (run.gpus or ()) and gpu.uuid and gpu.memory_used_bytes is not None
    }
    return replace(
        run, deltas=counter_deltas.begun(facts, run.gpus, now), memory=memory, baseline_s=at_s
    )


def _may_share(one: JobRun, other: JobRun) -> bool:
    return one.gpus is None or other.gpus is None or bool(one.gpus & other.gpus)


def due(known: Runs, seen_s: float) -> tuple[JobRun, ...]:
    """The ended runs that can be judged, because a whole pass began after their end (``seen_s``:
    when the last one began)."""
    return tuple(
        run for run in known.runs.values() if run.ended_s is not None and seen_s >= run.ended_s
    )


def waiting(known: Runs, seen_s: float) -> bool:
    """True while a run waits for a new pass, for its baseline or after its end."""
    return any(
        (run.baseline_s is None and not run.no_judgement and run.ended_s is None)
        or (run.ended_s is not None and seen_s < run.ended_s)
        for run in known.runs.values()
    )
