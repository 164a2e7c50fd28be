"""Builders for the tests of job reports."""

from __future__ import annotations

from typing import Any

from slurm_hooks.agent.job_runs.hook_notes import HookNote
from slurm_hooks.agent.job_runs.processes import JobProcess
from slurm_hooks.agent.job_runs.runs import JobRun, Runs, ended, started
from slurm_hooks.facts import GpuFacts, NodeFacts, NvmlFacts, PortFacts, XidEvent

BOOT = "11111111-2222-3333-4444-555555555555"
ALICE, BOB = 2001, 2002


def note(kind: str, job: int = 7, restarts: int = 0, at_s: float = 100.0, **more: Any) -> HookNote:
    full: dict[str, Any] = {"uid": ALICE, "gpus": frozenset({0, 1}), **more}
    return HookNote(kind=kind, job=job, restarts=restarts, at_s=at_s, boot_id=BOOT, **full)


def begin(known: Runs, job: int = 7, restarts: int = 0, at_s: float = 100.0, **more: Any) -> Runs:
    return started(known, note("start", job, restarts, at_s, **more))


def finish(known: Runs, job: int = 7, restarts: int = 0, at_s: float = 200.0, **more: Any) -> Runs:
    return ended(known, note("end", job, restarts, at_s, **more))


def run_of(known: Runs, job: int = 7, restarts: int = 0) -> JobRun:
    return known.runs[job, restarts]


def facts(gpus: int = 2, ports: tuple[PortFacts, ...] = (), **more: Any) -> NodeFacts:
    """A node whose GPUs all show the values in ``more``."""
    found = tuple(
        GpuFacts(index=i, uuid=f"GPU-{i}", pci=f"0000:0{i}:00", **more) for i in range(gpus)
    )
    return NodeFacts(expected_gpus=gpus, nvml=NvmlFacts(count=gpus, gpus=found), ports=ports)


def xid(
    number: int = 13, gpu: int | None = 0, at_s: float = 150.0, seq: int = 1, text: str = ""
) -> XidEvent:
    return XidEvent(
        xid=number,
        pci=f"0000:0{gpu}:00",
        seq=seq,
        at_s=at_s,
        text=text,
        gpu=gpu,
        uuid=None if gpu is None else f"GPU-{gpu}",
    )


def process(pid: int = 4711, job: int = 7, start_s: float = 120.0, **more: Any) -> JobProcess:
    full: dict[str, Any] = {"uid": ALICE, "step": "0", "restarts": 0, **more}
    return JobProcess(pid=pid, start=int(start_s * 100), start_s=start_s, job=job, **full)
