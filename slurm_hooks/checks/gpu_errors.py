"""NVML calls about a GPU that keep failing, other than by what a GPU or driver does not support.

A GPU without a handle cannot be used; one whose InfoROM is corrupt (NVML code 14) needs service;
any other code is a driver that is not quite well (gcm treats those as a warning too).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFacts, NodeFacts

_CORRUPTED_INFOROM = 14
"""NVML_ERROR_CORRUPTED_INFOROM"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Three passes: a call may fail once while the driver is busy with something else."""

    open_after: int = 3
    clear_after: int = 3

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - every check has limits
    for gpu in facts.gpus:
        if gpu.errors:
            yield finding(
                _code(gpu),
                subject=gpu.subject,
                detail=f"{gpu.where}: {_said(gpu)}",
                gpu=gpu.index,
            )


def _code(gpu: GpuFacts) -> str:
    if not gpu.answers:
        return "GPU_UNREADABLE"
    if any(code == _CORRUPTED_INFOROM for _, code in gpu.errors):
        return "INFOROM_CORRUPT"
    return "GPU_CALLS_FAIL"


def _said(gpu: GpuFacts) -> str:
    """The first of the failed calls, each once, with its code."""
    calls = list(dict.fromkeys(f"{call} gives code {code}" for call, code in gpu.errors))
    more = f" and {len(calls) - 2} more" if len(calls) > 2 else ""
    return ", ".join(calls[:2]) + more


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001
    for gpu in facts.gpus:
        if gpu.state_code is None:
            value = _said(gpu) if gpu.errors else "every call answered"
            yield Reading(subject=gpu.subject, value=value, limit="every call answered")


CHECK = Check(
    name="gpu_errors",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
