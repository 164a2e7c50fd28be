"""NVML calls for a GPU that fail repeatedly. Calls that a GPU or driver does not support do not count.

A GPU without a handle cannot be used. A corrupt InfoROM (NVML code 14) needs service. Any other
code is a warning about the driver (gcm treats those as a warning too).
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
    """Three passes: a call may fail once while the driver is busy."""

    open_after: int = 3
    clear_after: int = 3

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - the type of every check
    for gpu in facts.gpus:
        if gpu.errors:
            yield finding(
                _code(gpu),
                subject=gpu.subject,
                detail=f"{gpu.where}: {_failed_calls(gpu)}",
                gpu=gpu.index,
            )


def _code(gpu: GpuFacts) -> str:
    if not gpu.answers:
        return "GPU_UNREADABLE"
    if any(code == _CORRUPTED_INFOROM for _, code in gpu.errors):
        return "INFOROM_CORRUPT"
    return "GPU_CALLS_FAIL"


def _failed_calls(gpu: GpuFacts) -> str:
    """The first two failed calls with their codes, and how many more there are."""
    calls = list(dict.fromkeys(f"{call} failed with code {code}" for call, code in gpu.errors))
    more = f" and {len(calls) - 2} more" if len(calls) > 2 else ""
    return ", ".join(calls[:2]) + more


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001
    for gpu in facts.gpus:
        if gpu.state_code is None:
            value = _failed_calls(gpu) if gpu.errors else "all calls succeed"
            yield Reading(subject=gpu.subject, value=value, limit="all calls succeed")


CHECK = Check(
    name="gpu_errors",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
