"""What an ended run left behind: which processes, on which GPUs, and which of them may be killed.

Pure. Sources: gcm's running_procs_and_kill and Soperator's alloc_gpus_busy check the job's GPUs in
the same way, but neither checks the owner of a process before killing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slurm_hooks.agent.job_report.report import Leftover, MemoryLeft
from slurm_hooks.agent.job_runs.processes import Fate, JobProcess
from slurm_hooks.agent.job_runs.run_matching import leftovers
from slurm_hooks.agent.job_runs.runs import JobRun, Runs
from slurm_hooks.facts import GpuFacts, NodeFacts
from slurm_hooks.facts.leftovers import LeftoverFacts

Holdings = Mapping[int, tuple[tuple[int, ...], int | None]]
"""pid → (indices of the GPUs whose memory it holds, bytes of them all)."""


MEMORY_LEFT_BYTES = 100 << 20
"""An idle GPU's own use varies by less; a CUDA context alone takes several times as much."""


def holdings(gpus: Iterable[GpuFacts]) -> Holdings:
    """Which processes hold memory of these GPUs, as NVML reports."""
    found: dict[int, tuple[tuple[int, ...], int | None]] = {}
    for gpu in gpus:
        for process in gpu.processes or ():
            where, used = found.get(process.pid, ((), 0))
            total = (
                None
                if None in (used, process.used_bytes)
                else (used or 0) + (process.used_bytes or 0)
            )
            found[process.pid] = ((*where, gpu.index), total)
    return found


def find_leftovers(
    runs: Runs, run: JobRun, processes: Sequence[JobProcess], facts: NodeFacts
) -> tuple[Leftover, ...]:
    """The processes of this run that are still alive, and other processes on its GPUs."""
    held = holdings(facts.gpus)
    left = [
        _leftover(process, held.get(process.pid, ((), None)))
        for process in leftovers(runs, run, processes)
    ]
    known = {process.pid for process in processes}
    return (*left, *_unknown_processes(runs, run, facts, known))


def _leftover(process: JobProcess, held: tuple[tuple[int, ...], int | None]) -> Leftover:
    return Leftover(
        pid=process.pid,
        start=process.start,
        command=process.command,
        step=process.step,
        gpus=held[0],
        used_bytes=held[1],
    )


def _unknown_processes(
    runs: Runs, run: JobRun, facts: NodeFacts, known: set[int]
) -> Iterable[Leftover]:
    """Processes of no known job on GPUs that only this run had: reported, but never killed."""
    return [
        Leftover(pid=pid, start=0, confirmed=False, gpus=gpus, used_bytes=used)
        for pid, (gpus, used) in sorted(holdings(_alone_on(runs, run, facts)).items())
        if pid not in known
    ]


def _alone_on(runs: Runs, run: JobRun, facts: NodeFacts) -> list[GpuFacts]:
    """The GPUs that only this run had, and that no job that is still here may use."""
    others: set[int] = set()
    for other in runs.others(run):
        if other.ended_s is None:
            # A job without GPUs by index may use each of them.
            if other.gpus is None:
                return []
            others |= other.gpus
    return [gpu for gpu in facts.gpus if gpu.index in (run.gpus or ()) and gpu.index not in others]


def memory_left(runs: Runs, run: JobRun, facts: NodeFacts) -> tuple[MemoryLeft, ...]:
    """GPUs with more memory in use than at the job's start, by any holder (also a process that NVML
    does not list, or the driver itself)."""
    found = []
    for gpu in _alone_on(runs, run, facts):
        # By UUID: the index of a GPU may change when one before it is lost.
        before = run.memory.get(gpu.uuid or "")
        after = gpu.memory_used_bytes
        if before is not None and after is not None and after - before > MEMORY_LEFT_BYTES:
            found.append(MemoryLeft(gpu=gpu.index, before_bytes=before, after_bytes=after))
    return tuple(found)


def to_end(
    run: JobRun, left: Sequence[Leftover], processes: Iterable[JobProcess]
) -> tuple[JobProcess, ...]:
    """The processes that may be killed: confirmed to be of this run and of its user, who is not
    root."""
    # Unknown, or root: a daemon that an administrator started inside a job must survive it.
    if not run.uid:
        return ()
    mine = {(leftover.pid, leftover.start) for leftover in left if leftover.confirmed}
    return tuple(
        process
        for process in processes
        # With its start time, since a pid may belong to another process by now.
        if (process.pid, process.start) in mine and process.uid == run.uid
    )


def with_fates(left: Iterable[Leftover], fates: Iterable[Fate]) -> tuple[Leftover, ...]:
    """The leftovers after signals were sent to some of them."""
    by_process = {(fate.pid, fate.start): fate for fate in fates}
    after = []
    for leftover in left:
        fate = by_process.get((leftover.pid, leftover.start))
        if fate is None:
            after.append(leftover)
        elif fate.gone:
            after.append(replace(leftover, fate="ended"))
        else:
            after.append(replace(leftover, fate="unkillable", state=fate.state))
    return tuple(after)


def settled(before: Iterable[Leftover], now: Iterable[Leftover]) -> tuple[Leftover, ...]:
    """The result of a second scan: processes that ended by themselves in between are reported as
    gone."""
    alive = {(leftover.pid, leftover.start): leftover for leftover in now}
    gone = tuple(
        replace(leftover, fate="gone")
        for leftover in before
        if (leftover.pid, leftover.start) not in alive and leftover.confirmed
    )
    return (*alive.values(), *gone)


def still(left: LeftoverFacts, held: Holdings) -> LeftoverFacts:
    """The leftover with the GPU memory that it holds now."""
    gpus, used = held.get(left.pid, ((), None))
    return replace(left, gpus=gpus, used_bytes=used)


def still_there(run: JobRun, left: Iterable[Leftover]) -> tuple[LeftoverFacts, ...]:
    """The leftovers that are still alive, as facts of the node."""
    return tuple(
        LeftoverFacts(
            pid=leftover.pid,
            job=run.job,
            command=leftover.command,
            confirmed=leftover.confirmed,
            unkillable=leftover.fate == "unkillable",
            state=leftover.state,
            gpus=leftover.gpus,
            used_bytes=leftover.used_bytes,
        )
        for leftover in left
        if leftover.fate in ("alive", "unkillable")
    )
