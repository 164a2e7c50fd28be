"""What an ended run left behind: which processes, on which GPUs, and which of them may be ended.

Pure. Sources: gcm's running_procs_and_kill and Soperator's alloc_gpus_busy look at the job's GPUs in
the same way; neither asks whose a process is before it ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slurm_hooks.agent.job_report.attribution import leftovers
from slurm_hooks.agent.job_report.processes import Fate, JobProcess
from slurm_hooks.agent.job_report.report import Leftover, MemoryLeft
from slurm_hooks.agent.job_report.runs import Run, Runs
from slurm_hooks.facts import GpuFacts, NodeFacts
from slurm_hooks.facts.jobs import LeftoverFacts

Holdings = Mapping[int, tuple[tuple[int, ...], int | None]]
"""pid → (indices of the GPUs whose memory it holds, bytes of them all)."""


MEMORY_LEFT_BYTES = 100 << 20
"""More than an idle GPU's own use varies by; a context alone takes several times as much."""


def holdings(gpus: Iterable[GpuFacts]) -> Holdings:
    """Who holds memory of these GPUs, as NVML says."""
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


def look(
    runs: Runs, run: Run, processes: Sequence[JobProcess], facts: NodeFacts
) -> tuple[Leftover, ...]:
    """Everything of this run that is still alive, and whatever else holds its GPUs."""
    held = holdings(facts.gpus)
    left = [
        _leftover(process, held.get(process.pid, ((), None)))
        for process in leftovers(runs, run, processes)
    ]
    known = {process.pid for process in processes}
    return (*left, *_strangers(runs, run, facts, known))


def _leftover(process: JobProcess, held: tuple[tuple[int, ...], int | None]) -> Leftover:
    return Leftover(
        pid=process.pid,
        start=process.start,
        command=process.command,
        step=process.step,
        gpus=held[0],
        used_bytes=held[1],
    )


def _strangers(runs: Runs, run: Run, facts: NodeFacts, known: set[int]) -> Iterable[Leftover]:
    """Processes of no known job on GPUs that only this run had: told, and never ended."""
    return [
        Leftover(pid=pid, start=0, confirmed=False, gpus=gpus, used_bytes=used)
        for pid, (gpus, used) in sorted(holdings(_alone_on(runs, run, facts)).items())
        if pid not in known
    ]


def _alone_on(runs: Runs, run: Run, facts: NodeFacts) -> list[GpuFacts]:
    """The GPUs that only this run had: no job that is still here may use them."""
    others: set[int] = set()
    for one in runs.others(run):
        if one.ended_s is None:
            if one.gpus is None:
                return []
            others |= one.gpus
    return [gpu for gpu in facts.gpus if gpu.index in (run.gpus or ()) and gpu.index not in others]


def memory_left(runs: Runs, run: Run, facts: NodeFacts) -> tuple[MemoryLeft, ...]:
    """GPUs with more memory in use than at the job's start, whoever holds it (a process that NVML
    does not name, the driver itself)."""
    found = []
    for gpu in _alone_on(runs, run, facts):
        before = run.memory.get(gpu.uuid or "")
        after = gpu.memory_used_bytes
        if before is not None and after is not None and after - before > MEMORY_LEFT_BYTES:
            found.append(MemoryLeft(gpu=gpu.index, before_bytes=before, after_bytes=after))
    return tuple(found)


def to_end(
    run: Run, left: Sequence[Leftover], processes: Iterable[JobProcess]
) -> tuple[JobProcess, ...]:
    """Those that may be ended: provably this run's, of its own user, who is not root."""
    if not run.uid:
        return ()
    mine = {(one.pid, one.start) for one in left if one.confirmed}
    return tuple(one for one in processes if (one.pid, one.start) in mine and one.uid == run.uid)


def with_fates(left: Iterable[Leftover], fates: Iterable[Fate]) -> tuple[Leftover, ...]:
    """The leftovers after they were told to end."""
    by_process = {(fate.pid, fate.start): fate for fate in fates}
    after = []
    for one in left:
        fate = by_process.get((one.pid, one.start))
        if fate is None:
            after.append(one)
        elif fate.gone:
            after.append(replace(one, fate="ended"))
        else:
            after.append(replace(one, fate="unkillable", state=fate.state))
    return tuple(after)


def settled(before: Iterable[Leftover], now: Iterable[Leftover]) -> tuple[Leftover, ...]:
    """After a second look: what went by itself meanwhile is told as gone, not as left behind."""
    still = {(one.pid, one.start): one for one in now}
    gone = tuple(
        replace(one, fate="gone")
        for one in before
        if (one.pid, one.start) not in still and one.confirmed
    )
    return (*still.values(), *gone)


def still(left: LeftoverFacts, held: Holdings) -> LeftoverFacts:
    """A leftover with the memory that it holds now."""
    gpus, used = held.get(left.pid, ((), None))
    return replace(left, gpus=gpus, used_bytes=used)


def still_there(run: Run, left: Iterable[Leftover]) -> tuple[LeftoverFacts, ...]:
    """What stays a fact of the node: those that still live."""
    return tuple(
        LeftoverFacts(
            pid=one.pid,
            job=run.job,
            command=one.command,
            confirmed=one.confirmed,
            unkillable=one.fate == "unkillable",
            state=one.state,
            gpus=one.gpus,
            used_bytes=one.used_bytes,
        )
        for one in left
        if one.fate in ("alive", "unkillable")
    )
