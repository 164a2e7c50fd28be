"""Uncorrected ECC errors since the agent's baseline, and the GPU's flag that its SRAM had too many.
Corrected errors are shown and never judged: they lose no data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_new_uncorrected``: volatile uncorrected errors allowed since the baseline, which is set
    when the agent first sees the GPU in this boot and after each GPU reset.
    """

    max_new_uncorrected: int = 0
    open_after: int = 1
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_new_uncorrected=(0, 1_000_000))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for gpu in facts.gpus:
        new = gpu.uncorrected_new
        if new is not None and new > limits.max_new_uncorrected:
            yield finding(
                "ECC_UNCORRECTED",
                subject=gpu.subject,
                detail=f"{gpu.where}: {new} new uncorrected ECC errors",
                gpu=gpu.index,
            )
        if gpu.sram_threshold_exceeded:
            ever = gpu.sram_uncorrected_ever
            yield finding(
                "SRAM_THRESHOLD",
                subject=gpu.subject,
                detail=f"{gpu.where}: SRAM errors exceed the GPU's own threshold "
                f"({_number(ever)} uncorrected in total)",
                gpu=gpu.index,
            )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for gpu in facts.gpus:
        if gpu.uncorrected is not None:
            new = "?" if gpu.uncorrected_new is None else gpu.uncorrected_new
            sram = ", SRAM threshold exceeded" if gpu.sram_threshold_exceeded else ""
            yield Reading(
                subject=gpu.subject,
                value=f"{new} new ({gpu.uncorrected} since reset, {_number(gpu.uncorrected_ever)} "
                f"in total; {_number(gpu.corrected)} corrected){sram}",
                limit=f"<= {limits.max_new_uncorrected} new",
            )


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


CHECK = Check(
    name="gpu_ecc",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
