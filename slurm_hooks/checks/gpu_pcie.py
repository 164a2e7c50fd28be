"""The PCIe link of each GPU as the GPU sees it: slower than it can be while it works, or repeating
itself.

An idle GPU lowers its link's speed to save power, so speed is judged only while the driver does not
call it idle. A healthy H100 has a few hundred replays in its life: only their rate counts (31 a
minute is DCGM's limit for a Gen5 x16 link).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFacts, NodeFacts

_IDLE = 0x1
"""nvmlClocksEventReasonGpuIdle"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``min_gen``: PCIe generation that a working GPU's link must have; 0 means the best that it
    can. ``max_replays_per_min``: as a mean of the last minute."""

    min_gen: int = 0
    max_replays_per_min: float = 31.0
    open_after: int = 3
    clear_after: int = 3

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, min_gen=(0, 8))
        if not 0 <= self.max_replays_per_min <= 1e9:
            raise ValueError(
                f"max_replays_per_min must be between 0 and 1e9, got {self.max_replays_per_min:g}"
            )


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for gpu in facts.gpus:
        want = limits.min_gen or gpu.pcie_max_gen
        if _works(gpu) and gpu.pcie_gen and want and gpu.pcie_gen < want:
            yield finding(
                "PCIE_SPEED",
                subject=gpu.subject,
                detail=f"{gpu.where}: PCIe link is generation {gpu.pcie_gen} of {want} at work",
                gpu=gpu.index,
            )
        rate = gpu.news.pcie_replays_per_min
        if rate is not None and rate > limits.max_replays_per_min:
            yield finding(
                "PCIE_REPLAYS",
                subject=gpu.subject,
                # The limit and not the rate, which would be new text for Slurm at every pass.
                detail=f"{gpu.where}: more than {limits.max_replays_per_min:g} PCIe replays a minute",
                gpu=gpu.index,
            )


def _works(gpu: GpuFacts) -> bool:
    return gpu.clock_reasons is not None and not gpu.clock_reasons & _IDLE


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for gpu in facts.gpus:
        if gpu.pcie_gen is None:
            continue
        rate = gpu.news.pcie_replays_per_min
        per_min = "?" if rate is None else f"{rate:.0f}"
        state = "at work" if _works(gpu) else "idle"
        yield Reading(
            subject=gpu.subject,
            value=f"generation {gpu.pcie_gen} {state}, {per_min} replays/min",
            limit=f">= {limits.min_gen or gpu.pcie_max_gen or '?'} at work, "
            f"<= {limits.max_replays_per_min:g}/min",
        )


CHECK = Check(
    name="gpu_pcie",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
