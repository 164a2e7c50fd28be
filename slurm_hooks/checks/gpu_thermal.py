"""Hardware thermal slowdown. Software limits (power cap, software thermal slowdown) are normal under
load and never judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFacts, NodeFacts

HW_SLOWDOWN, HW_THERMAL = 0x8, 0x40
"""nvmlClocksEventReasonHwSlowdown, …HwThermalSlowdown"""
_POWER_BRAKE = 0x80
"""Also sets the general slowdown bit; it has its own check, gpu_power_brake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``min_margin_c``: least T.Limit margin in degrees; None: the GPU's own slowdown offset (H100:
    -2). ``max_share``: share of the last ten minutes (0 to 1) in which heat may lower the clocks,
    by the driver's nanosecond counter.
    """

    min_margin_c: int | None = None
    max_share: float = 0.05
    open_after: int = 3
    clear_after: int = 6

    def __post_init__(self) -> None:
        limits_in_range(self)
        if self.min_margin_c is not None and not -100 <= self.min_margin_c <= 100:
            raise ValueError(f"min_margin_c must be between -100 and 100, got {self.min_margin_c}")
        within(self, max_share=(0, 1))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for gpu in facts.gpus:
        why = _hot(gpu, limits)
        if why:
            temperature = f" at {gpu.temperature_c} C" if gpu.temperature_c is not None else ""
            yield finding(
                "GPU_THERMAL",
                subject=gpu.subject,
                detail=f"{gpu.where}: {why}{temperature}",
                gpu=gpu.index,
            )


def _hot(gpu: GpuFacts, limits: Limits) -> str:
    reasons = gpu.clock_reasons or 0
    if reasons & HW_THERMAL:
        return "hardware thermal slowdown"
    if reasons & HW_SLOWDOWN and not reasons & _POWER_BRAKE:
        return "hardware slowdown"
    least = _least(gpu, limits)
    if gpu.thermal_margin_c is not None and least is not None and gpu.thermal_margin_c <= least:
        return f"thermal margin {gpu.thermal_margin_c} C"
    share = gpu.deltas.thermal_share
    if share is not None and share > limits.max_share:
        return f"thermal slowdown for {share:.0%} of the last ten minutes"
    return ""


def _least(gpu: GpuFacts, limits: Limits) -> int | None:
    return limits.min_margin_c if limits.min_margin_c is not None else gpu.slowdown_margin_c


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for gpu in facts.gpus:
        if gpu.thermal_margin_c is not None:
            least, share = _least(gpu, limits), gpu.deltas.thermal_share
            slowed = "" if share is None else f", slowed {share:.0%}"
            more = f", <= {limits.max_share:.0%}"
            yield Reading(
                subject=gpu.subject,
                value=f"margin {gpu.thermal_margin_c} C{slowed}",
                limit=(f"> {least} C" if least is not None else "any margin") + more,
            )


CHECK = Check(
    name="gpu_thermal",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
