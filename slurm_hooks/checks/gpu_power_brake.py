"""Hardware power brake: the server's power supply makes the GPU lower its clocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFacts, NodeFacts

POWER_BRAKE = 0x80
"""nvmlClocksEventReasonHwPowerBrakeSlowdown"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_share``: share of the last ten minutes (0 to 1) in which the brake may be on. Source: the
    driver's nanosecond counter, which also counts a brake that is on only between two passes.
    """

    max_share: float = 0.05
    open_after: int = 3
    clear_after: int = 6

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_share=(0, 1))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for gpu in facts.gpus:
        why = _braked(gpu, limits)
        if why:
            yield finding(
                "GPU_POWER_BRAKE",
                subject=gpu.subject,
                detail=f"{gpu.where}: power brake {why}",
                gpu=gpu.index,
            )


def _braked(gpu: GpuFacts, limits: Limits) -> str:
    if (gpu.clock_reasons or 0) & POWER_BRAKE:
        return "is on"
    share = gpu.deltas.brake_share
    if share is not None and share > limits.max_share:
        return f"was on for {share:.0%} of the last ten minutes"
    return ""


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for gpu in facts.gpus:
        if gpu.clock_reasons is not None:
            value = "on" if gpu.clock_reasons & POWER_BRAKE else "off"
            share = gpu.deltas.brake_share
            if share:
                value += f", {share:.0%} of ten minutes"
            limit = f"off, <= {limits.max_share:.0%}"
            yield Reading(subject=gpu.subject, value=value, limit=limit)


CHECK = Check(
    name="gpu_power_brake",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
