"""The PCIe link of each GPU as the GPU reports it: too slow under load, or too many replays.

An idle GPU lowers the speed of its link to save power, so the speed is judged only while the
driver does not report the GPU as idle. A healthy H100 counts some hundred replays over its life,
so only the rate is judged (DCGM's limit for a Gen5 x16 link is 31 per minute).
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
    """``min_gen``: least PCIe generation of the link under load; 0: the highest that it supports.
    ``max_replays_per_min``: mean of the last minute.
    """

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
        if _under_load(gpu) and gpu.pcie_gen and want and gpu.pcie_gen < want:
            yield finding(
                "PCIE_SPEED",
                subject=gpu.subject,
                detail=f"{gpu.where}: PCIe link is Gen{gpu.pcie_gen} under load, expected Gen{want}",
                gpu=gpu.index,
            )
        rate = gpu.deltas.pcie_replays_per_min
        if rate is not None and rate > limits.max_replays_per_min:
            yield finding(
                "PCIE_REPLAYS",
                subject=gpu.subject,
                # The limit, not the rate: a text that changes is another write to Slurm.
                detail=f"{gpu.where}: more than {limits.max_replays_per_min:g} PCIe replays per minute",
                gpu=gpu.index,
            )


def _under_load(gpu: GpuFacts) -> bool:
    return gpu.clock_reasons is not None and not gpu.clock_reasons & _IDLE


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for gpu in facts.gpus:
        if gpu.pcie_gen is None:
            continue
        rate = gpu.deltas.pcie_replays_per_min
        per_min = "?" if rate is None else f"{rate:.0f}"
        state = "under load" if _under_load(gpu) else "idle"
        yield Reading(
            subject=gpu.subject,
            value=f"Gen{gpu.pcie_gen} {state}, {per_min} replays/min",
            limit=f">= Gen{limits.min_gen or gpu.pcie_max_gen or '?'} under load, "
            f"<= {limits.max_replays_per_min:g}/min",
        )


CHECK = Check(
    name="gpu_pcie",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
