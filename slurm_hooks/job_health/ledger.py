"""Which runs of which jobs are on this node, and what befell each. Pure; kept on disk by ``book``.

A run is a job and its restart count: a requeued job that comes back is another run. All times are
seconds since boot, the kernel log's own clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slurm_hooks.facts import NodeFacts, XidEvent
from slurm_hooks.job_health import tally
from slurm_hooks.job_health.note import Note
from slurm_hooks.job_health.processes import JobProcess
from slurm_hooks.job_health.tally import Tallies

MAX_RUNS = 256
"""Runs that never end here (a prolog that Slurm gave up on) must not pile up."""
MAX_XIDS = 64
"""Different Xids of one run that are told; an application may log one for each of its kernels."""
_CLOCK_TICK_S = 0.02
"""Process start times come in hundredths of a second."""

Key = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobXid:
    """An Xid that happened to a run: on one of its GPUs, or by a process of it.

    ``how``    what ties it to the job: ``pid``, ``gpu`` or ``alone`` (the only job on the node).
    ``sure``   False where other jobs share that GPU and nothing tells them apart.
    ``count``  alike ones are told once; ``seq`` is the last one's kernel-log sequence number.
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
class Run:
    """One run of a job on this node, from prolog to the end of its judgement.

    ``baseline_s``  when the facts of its baseline were read; None: none was taken yet.
    ``no_judgement``  why its counters are not judged; empty: they are.
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
    tallies: Tallies = field(default_factory=dict)
    xids: tuple[JobXid, ...] = ()
    no_judgement: str = ""

    @property
    def key(self) -> Key:
        return (self.job, self.restarts)

    @property
    def family(self) -> int:
        """The id that its tasks carry: a het job's leader's."""
        return self.het_job if self.het_job is not None else self.job

    def lived_at(self, at_s: float) -> bool:
        """Whether it was here then."""
        return self.started_s <= at_s and (self.ended_s is None or at_s <= self.ended_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The runs on this node, by job and restart count, oldest first."""

    runs: Mapping[Key, Run] = field(default_factory=dict)

    def with_run(self, run: Run) -> Ledger:
        return Ledger(runs={**self.runs, run.key: run})

    def without(self, key: Key) -> Ledger:
        return Ledger(runs={k: run for k, run in self.runs.items() if k != key})

    def others(self, run: Run) -> tuple[Run, ...]:
        return tuple(one for one in self.runs.values() if one.key != run.key)


def started(ledger: Ledger, note: Note, no_judgement: str = "") -> Ledger:
    """A run began here. Earlier runs of the same job cannot be here any more."""
    key = (note.job, note.restarts)
    if key in ledger.runs:
        return ledger
    runs = {
        k: replace(run, ended_s=note.at_s) if _superseded(run, note) else run
        for k, run in ledger.runs.items()
    }
    runs[key] = Run(
        job=note.job,
        restarts=note.restarts,
        started_s=note.at_s,
        uid=note.uid,
        gpus=note.gpus,
        het_job=note.het_job,
        skip=note.skip,
        no_judgement=no_judgement,
    )
    while len(runs) > MAX_RUNS:
        del runs[next(iter(runs))]
    return Ledger(runs=runs)


def _superseded(run: Run, note: Note) -> bool:
    return run.job == note.job and run.restarts < note.restarts and run.ended_s is None


def ended(ledger: Ledger, note: Note) -> Ledger:
    """A run's epilog ran. One whose prolog nobody noted has no baseline: its end is told without."""
    run = ledger.runs.get((note.job, note.restarts))
    if run is None:
        run = Run(
            job=note.job,
            restarts=note.restarts,
            started_s=note.at_s,
            uid=note.uid,
            gpus=note.gpus,
            het_job=note.het_job,
            no_judgement="its prolog left no note",
        )
    if run.ended_s is None:
        run = replace(run, ended_s=note.at_s)
    return ledger.with_run(replace(run, skip=run.skip or note.skip))


def saw(ledger: Ledger, facts: NodeFacts, began_s: float, now: float) -> Ledger:
    """One pass over the probes, begun at ``began_s``. ``now``: epoch seconds."""
    runs = {
        key: _saw(run, ledger.others(run), facts, began_s, now) for key, run in ledger.runs.items()
    }
    return Ledger(runs=runs)


def _saw(run: Run, others: Iterable[Run], facts: NodeFacts, began_s: float, now: float) -> Run:
    if run.no_judgement or (run.ended_s is not None and run.baseline_s is None):
        return run
    if run.baseline_s is None:
        return _with_baseline(run, others, facts, began_s, now)
    return replace(run, tallies=tally.grown(run.tallies, facts, now))


def take_baseline(run: Run, others: Iterable[Run], facts: NodeFacts, at_s: float) -> Run:
    """The baseline from the newest facts that there are, read at ``at_s`` before the job began."""
    return _with_baseline(run, others, facts, at_s, 0.0)


def _with_baseline(
    run: Run, others: Iterable[Run], facts: NodeFacts, at_s: float, now: float
) -> Run:
    """Not from facts that are older than another job's end on the same GPUs: what that one counted
    last would be laid at this one's door."""
    if any(
        one.ended_s is not None and one.ended_s >= at_s and _may_share(one, run) for one in others
    ):
        return run
    return replace(run, tallies=tally.begun(facts, run.gpus, now), baseline_s=at_s)


def _may_share(one: Run, other: Run) -> bool:
    return one.gpus is None or other.gpus is None or bool(one.gpus & other.gpus)


# --- whose Xid ------------------------------------------------------------------------------------


def attribute(
    ledger: Ledger, event: XidEvent, pid: int | None, processes: Iterable[JobProcess]
) -> tuple[Ledger, tuple[Key, ...]]:
    """The ledger with this Xid laid at the right door, and the runs that it belongs to.

    The process that the kernel names decides; else the GPU at that time; else, for jobs without
    GPUs of their own by Slurm, being the only job there. ``pid``: from the Xid's text.
    """
    table = tuple(processes)
    found = JobXid(
        xid=event.xid,
        pci=event.pci,
        seq=event.seq,
        at_s=event.at_s,
        gpu=event.gpu,
        uuid=event.uuid,
        pid=pid,
        text=event.text,
    )
    culprit = next((one for one in table if one.pid == pid), None)
    owner = _owner(ledger, event, culprit) if culprit is not None else None
    if owner is not None and culprit is not None:
        return _add(ledger, [owner], replace(found, how="pid", step=culprit.step), table)
    alive = [run for run in ledger.runs.values() if run.lived_at(event.at_s)]
    by_gpu = [run for run in alive if event.gpu is not None and event.gpu in (run.gpus or ())]
    if by_gpu:
        return _add(ledger, by_gpu, found, table)
    if len(alive) == 1 and alive[0].gpus is None:
        return _add(ledger, alive, replace(found, how="alone"), table)
    return ledger, ()


def _owner(ledger: Ledger, event: XidEvent, culprit: JobProcess) -> Run | None:
    """The run of the process that the kernel named. One whose job has other GPUs is not believed:
    its number may be of another process namespace than ours."""
    mine = [run for run in ledger.runs.values() if belongs(run, culprit, ())]
    mine = [run for run in mine if None in (run.gpus, event.gpu) or event.gpu in (run.gpus or ())]
    here = [run for run in mine if run.lived_at(event.at_s)] or mine[-1:]
    # Components of a het job that share a node are told apart by their GPUs.
    return next((run for run in here if event.gpu in (run.gpus or ())), here[0] if here else None)


def _add(
    ledger: Ledger, runs: list[Run], found: JobXid, table: Iterable[JobProcess]
) -> tuple[Ledger, tuple[Key, ...]]:
    hit = []
    for run in runs:
        step = found.step or _step_on(run, found, table)
        after = _with_xid(run, replace(found, step=step, sure=len(runs) == 1))
        if after is not run:
            ledger = ledger.with_run(after)
            hit.append(run.key)
    return ledger, tuple(hit)


def _step_on(run: Run, event: JobXid, table: Iterable[JobProcess]) -> str:
    """The run's step that uses the GPU; empty when it cannot be told or is none (batch script)."""
    if event.gpu is None:
        return ""
    steps = {
        one.step
        for one in table
        if one.step and belongs(run, one, ()) and one.uses(event.gpu, event.uuid) is not False
    }
    return steps.pop() if len(steps) == 1 else ""


def _with_xid(run: Run, found: JobXid) -> Run:
    """Alike ones are counted; the same record heard twice is one."""
    if any(old.pci == found.pci and old.xid == found.xid and old.seq >= found.seq for old in run.xids):
        return run
    alike = next(
        (
            old
            for old in run.xids
            if (old.xid, old.pci, old.step, old.pid)
            == (found.xid, found.pci, found.step, found.pid)
        ),
        None,
    )
    others = tuple(old for old in run.xids if old is not alike)
    if alike is None and len(others) >= MAX_XIDS:
        return run
    if alike is not None:
        found = replace(found, count=alike.count + 1)
    return replace(run, xids=(*others, found))


# --- what a job left behind -----------------------------------------------------------------------


def belongs(run: Run, process: JobProcess, others: Iterable[Run]) -> bool:
    """Whether a process is provably of this run: by job id, user and start time.

    ``others``: the runs that are still here. One of the same job, or another component of the same
    het job, may own a process with the same job id; then only what tells the two apart counts.
    """
    if run.uid is not None and process.uid != run.uid:
        return False
    if process.by_cgroup:
        if process.job != run.job:
            return False
    elif process.job != run.family:
        return False
    if process.start_s < run.started_s - _CLOCK_TICK_S and not process.by_cgroup:
        return False  # older than the job: a job number given out again, or a forged environment
    rivals = [one for one in others if _rival(one, run, process)]
    if not rivals:
        return True
    if any(one.job != run.job for one in rivals):
        return False  # another component of the het job: nothing but its own cgroup could tell
    return _of_earlier_run(run, rivals, process)


def _rival(one: Run, run: Run, process: JobProcess) -> bool:
    if one.key == run.key or one.ended_s is not None:
        return False
    return one.job == run.job or (one.family == run.family and not process.by_cgroup)


def _of_earlier_run(run: Run, rivals: Iterable[Run], process: JobProcess) -> bool:
    """The job is back here: a process is of the earlier run when it began before the later one, or
    carries the earlier run's restart count."""
    later = min(one.started_s for one in rivals)
    if process.start_s < later - _CLOCK_TICK_S:
        return True
    return process.restarts is not None and process.restarts == run.restarts


def leftovers(ledger: Ledger, run: Run, processes: Iterable[JobProcess]) -> list[JobProcess]:
    """The processes of an ended run that are still alive."""
    others = ledger.others(run)
    return [one for one in processes if belongs(run, one, others)]


def due(ledger: Ledger, seen_s: float) -> tuple[Run, ...]:
    """The ended runs that can be judged: the node was looked at since (``seen_s``: when the last
    whole pass began)."""
    return tuple(
        run for run in ledger.runs.values() if run.ended_s is not None and seen_s >= run.ended_s
    )


def waiting(ledger: Ledger, seen_s: float) -> bool:
    """True while a run waits for a new pass: for its baseline, or for its end."""
    return any(
        (run.baseline_s is None and not run.no_judgement and run.ended_s is None)
        or (run.ended_s is not None and seen_s < run.ended_s)
        for run in ledger.runs.values()
    )
