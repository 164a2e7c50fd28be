"""Whose an Xid is, and whose a process. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slurm_hooks.agent.job_report.processes import JobProcess
from slurm_hooks.agent.job_report.runs import JobXid, Key, Run, Runs
from slurm_hooks.facts import XidEvent

MAX_XIDS = 64
"""Different Xids of one run that are told; an application may log one for each of its kernels."""
_CLOCK_TICK_S = 0.02
"""Process start times come in hundredths of a second."""


def attribute(
    known: Runs, event: XidEvent, pid: int | None, processes: Iterable[JobProcess]
) -> tuple[Runs, tuple[Key, ...]]:
    """The known with this Xid laid at the right door, and the runs that it belongs to.

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
    owner = _owner(known, event, culprit) if culprit is not None else None
    if owner is not None and culprit is not None:
        return _add(known, [owner], replace(found, how="pid", step=culprit.step), table)
    alive = [run for run in known.runs.values() if run.lived_at(event.at_s)]
    by_gpu = [run for run in alive if event.gpu is not None and event.gpu in (run.gpus or ())]
    if by_gpu:
        return _add(known, by_gpu, found, table)
    if len(alive) == 1 and alive[0].gpus is None:
        return _add(known, alive, replace(found, how="alone"), table)
    return known, ()


def _owner(known: Runs, event: XidEvent, culprit: JobProcess) -> Run | None:
    """The run of the process that the kernel named. One whose job has other GPUs is not believed:
    its number may be of another process namespace than ours."""
    mine = [run for run in known.runs.values() if belongs(run, culprit, ())]
    mine = [run for run in mine if None in (run.gpus, event.gpu) or event.gpu in (run.gpus or ())]
    here = [run for run in mine if run.lived_at(event.at_s)] or mine[-1:]
    # Components of a het job that share a node are told apart by their GPUs.
    return next((run for run in here if event.gpu in (run.gpus or ())), here[0] if here else None)


def _add(
    known: Runs, runs: list[Run], found: JobXid, table: Iterable[JobProcess]
) -> tuple[Runs, tuple[Key, ...]]:
    hit = []
    for run in runs:
        step = found.step or _step_on(run, found, table)
        after = _with_xid(run, replace(found, step=step, sure=len(runs) == 1))
        if after is not run:
            known = known.with_run(after)
            hit.append(run.key)
    return known, tuple(hit)


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


def leftovers(known: Runs, run: Run, processes: Iterable[JobProcess]) -> list[JobProcess]:
    """The processes of an ended run that are still alive."""
    others = known.others(run)
    return [one for one in processes if belongs(run, one, others)]
