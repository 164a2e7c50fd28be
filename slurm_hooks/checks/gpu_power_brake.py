"""The power brake: the machine's power supply slows the GPU down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts

NEEDS = "nvml"

POWER_BRAKE = 0x80
"""nvmlClocksEventReasonHwPowerBrakeSlowdown"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    open_after: int = 3
    clear_after: int = 6

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - every check has limits
    for gpu in facts.gpus:
        if (gpu.clock_reasons or 0) & POWER_BRAKE:
            yield finding(
                "GPU_POWER_BRAKE",
                subject=gpu.subject,
                detail=f"{gpu.where}: hardware power brake is on",
                gpu=gpu.index,
            )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001
    for gpu in facts.gpus:
        if gpu.clock_reasons is not None:
            on = gpu.clock_reasons & POWER_BRAKE
            yield Reading(subject=gpu.subject, value="on" if on else "off", limit="off")
