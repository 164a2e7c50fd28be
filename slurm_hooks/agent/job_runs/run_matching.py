"""Which run of a job an Xid belongs to, and which run a process belongs to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slurm_hooks.agent.job_runs.processes import JobProcess
from slurm_hooks.agent.job_runs.runs import JobRun, JobXid, Key, Runs
from slurm_hooks.facts import XidEvent

MAX_XIDS = 64
"""Different Xids reported for one run; an application may log one for each of its kernels."""
_CLOCK_TICK_S = 0.02
"""Process start times come in hundredths of a second."""


def attribute(
    known: Runs, event: XidEvent, pid: int | None, processes: Iterable[JobProcess]
) -> tuple[Runs, tuple[Key, ...]]:
    """The runs with this Xid attributed, and the keys of the runs to which it was attributed.

    The process that the kernel names decides; else the GPU at that time; else, if Slurm allocated
    no GPUs by index, the only job on the node. ``pid``: from the Xid's text.
    """
    table = tuple(processes)
    xid = JobXid(
        xid=event.xid,
        pci=event.pci,
        seq=event.seq,
        at_s=event.at_s,
        gpu=event.gpu,
        uuid=event.uuid,
        pid=pid,
        text=event.text,
    )
    named = next((process for process in table if process.pid == pid), None)
    owner = _owner(known, event, named) if named is not None else None
    if owner is not None and named is not None:
        return _add(known, [owner], replace(xid, how="pid", step=named.step), table)
    alive = [run for run in known.runs.values() if run.lived_at(event.at_s)]
    # Several runs, where jobs share a GPU: each of them gets the Xid, and none is sure.
    by_gpu = [run for run in alive if event.gpu is not None and event.gpu in (run.gpus or ())]
    if by_gpu:
        return _add(known, by_gpu, xid, table)
    if len(alive) == 1 and alive[0].gpus is None:
        return _add(known, alive, replace(xid, how="alone"), table)
    return known, ()


def _owner(known: Runs, event: XidEvent, named: JobProcess) -> JobRun | None:
    """The run of the process that the kernel named. A process whose job has other GPUs is ignored:
    the pid in the kernel log may be of another pid namespace."""
    mine = [run for run in known.runs.values() if belongs(run, named, ())]
    mine = [run for run in mine if None in (run.gpus, event.gpu) or event.gpu in (run.gpus or ())]
    here = [run for run in mine if run.lived_at(event.at_s)] or mine[-1:]
    # Components of a het job on the same node are distinguished by their GPUs.
    return next((run for run in here if event.gpu in (run.gpus or ())), here[0] if here else None)


def _add(
    known: Runs, runs: list[JobRun], found: JobXid, table: Iterable[JobProcess]
) -> tuple[Runs, tuple[Key, ...]]:
    hit = []
    for run in runs:
        step = found.step or _step_on(run, found, table)
        after = _with_xid(run, replace(found, step=step, sure=len(runs) == 1))
        if after is not run:
            known = known.with_run(after)
            hit.append(run.key)
    return known, tuple(hit)


def _step_on(run: JobRun, event: JobXid, table: Iterable[JobProcess]) -> str:
    """The run's step that uses the GPU; empty if that is unknown, or if no step does (batch
    script)."""
    # Without a GPU nothing tells the steps of one run apart.
    if event.gpu is None:
        return ""
    steps = {
        process.step
        for process in table
        if process.step
        and belongs(run, process, ())
        and process.uses(event.gpu, event.uuid) is not False
    }
    return steps.pop() if len(steps) == 1 else ""


def _with_xid(run: JobRun, found: JobXid) -> JobRun:
    """Xids of the same kind are counted; a record that is read twice counts once."""
    if any(
        old.pci == found.pci and old.xid == found.xid and old.seq >= found.seq for old in run.xids
    ):
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


def belongs(run: JobRun, process: JobProcess, others: Iterable[JobRun]) -> bool:
    """Whether a process certainly belongs to this run: by job id, user and start time.

    ``others``: the runs that are still here. A later run of the same job, or another component of
    the same het job, has processes with the same job id; then only evidence that separates the two
    counts.
    """
    # A user may set another job's id in the environment, but cannot become its user.
    if run.uid is not None and process.uid != run.uid:
        return False
    # slurmd makes the cgroup, so its job id is certain; that of the environment is the het job's
    # leader.
    if process.by_cgroup:
        if process.job != run.job:
            return False
    elif process.job != run.family:
        return False
    if process.start_s < run.started_s - _CLOCK_TICK_S and not process.by_cgroup:
        return False  # older than the job: a job id that was used again, or a forged environment
    rivals = [other for other in others if _may_own(other, run, process)]
    if not rivals:
        return True
    if any(other.job != run.job for other in rivals):
        return False  # another component of the het job: only a cgroup could distinguish them
    return _of_earlier_run(run, rivals, process)


def _may_own(other: JobRun, run: JobRun, process: JobProcess) -> bool:
    if other.key == run.key or other.ended_s is not None:
        return False
    return other.job == run.job or (other.family == run.family and not process.by_cgroup)


def _of_earlier_run(run: JobRun, rivals: Iterable[JobRun], process: JobProcess) -> bool:
    """The job runs here again: a process belongs to the earlier run if it started before the later
    run, or has the earlier run's restart count."""
    later = min(other.started_s for other in rivals)
    if process.start_s < later - _CLOCK_TICK_S:
        return True
    return process.restarts is not None and process.restarts == run.restarts


def leftovers(known: Runs, run: JobRun, processes: Iterable[JobProcess]) -> list[JobProcess]:
    """The processes of an ended run that are still alive."""
    others = known.others(run)
    return [process for process in processes if belongs(run, process, others)]
