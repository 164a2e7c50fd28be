"""Processes of ended jobs that still run: they may hold GPU memory that the next job needs.

Only a process that holds GPU memory or that SIGKILL did not end is a finding; the others are in
the job's report (``RUN/reports``). It needs no probe: the agent looks when a job ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts
from slurm_hooks.facts.leftovers import LeftoverFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_used_mib``: GPU memory that such a process may hold. gcm kills GPU processes from 15 MiB
    on; a CUDA context alone takes hundreds. Two passes to open: memory is freed some time after a
    process exits.
    """

    max_used_mib: int = 15
    open_after: int = 2
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_used_mib=(0, 1 << 20))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    """One finding for each process."""
    for left in facts.leftovers or ():
        what = f"pid {left.pid} ({left.command or 'unknown'}) of job {left.job}"
        if left.unkillable:
            yield finding(
                "JOB_UNKILLABLE",
                subject=f"pid {left.pid}",
                detail=f"{what} survives SIGKILL (state {left.state or 'unknown'})",
                gpu=_gpu(left),
            )
        elif left.gpus and _mib(left) > limits.max_used_mib:
            process = (
                what
                if left.confirmed
                else f"pid {left.pid} of an unknown job, after job {left.job},"
            )
            yield finding(
                "JOB_LEFTOVER",
                subject=f"pid {left.pid}",
                detail=f"{process} holds {_amount(left)} on GPU {','.join(map(str, left.gpus))}",
                gpu=_gpu(left),
            )


def _gpu(left: LeftoverFacts) -> int | None:
    return left.gpus[0] if len(left.gpus) == 1 else None


def _mib(left: LeftoverFacts) -> float:
    """If NVML lists a process without an amount, it holds a context: more than any limit."""
    return float("inf") if left.used_bytes is None else left.used_bytes / (1 << 20)


def _amount(left: LeftoverFacts) -> str:
    return "memory" if left.used_bytes is None else f"{left.used_bytes / (1 << 20):.0f} MiB"


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    if facts.leftovers is None:
        return
    limit = f"<= {limits.max_used_mib} MiB of GPU memory"
    for left in facts.leftovers:
        yield Reading(
            subject=f"pid {left.pid}", value=f"job {left.job}, {_amount(left)}", limit=limit
        )
    if not facts.leftovers:
        yield Reading(subject="node", value="no processes of ended jobs", limit=limit)


CHECK = Check(
    name="job_leftovers",
    limits=Limits,
    judge=judge,
    show=show,
)
