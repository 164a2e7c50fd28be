"""Repairs of GPU memory: row remaps that are pending or failed, few spare rows left, and other
repairs that a GPU reset applies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFacts, NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """One pass to open: the hardware latches these flags. ``max_low_banks``: how many memory banks
    (of 2560 on an H100) may have few or no spare rows left.
    """

    max_low_banks: int = 0
    open_after: int = 1
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_low_banks=(0, 100_000))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for gpu in facts.gpus:
        for code, what in _repairs(gpu, limits):
            yield finding(code, subject=gpu.subject, detail=f"{gpu.where}: {what}", gpu=gpu.index)


def _repairs(gpu: GpuFacts, limits: Limits) -> Iterator[tuple[str, str]]:
    if gpu.remap_failed:
        yield "ROW_REMAP_FAILED", "row remapping failed: no spare row left"
    if gpu.remap_pending:
        yield "ROW_REMAP_PENDING", "row remap pending until a GPU reset"
    if gpu.repair_pending:
        yield "GPU_REPAIR_PENDING", "channel or TPC repair pending until a GPU reset"
    if _low_banks(gpu) > limits.max_low_banks:
        yield "ROW_REMAP_LOW", f"{_low_banks(gpu)} memory banks with few or no spare rows"


def _low_banks(gpu: GpuFacts) -> int:
    return gpu.spare_rows.low + gpu.spare_rows.none if gpu.spare_rows else 0


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for gpu in facts.gpus:
        if gpu.remap_pending is None:
            continue
        flags = (
            ("failed", gpu.remap_failed),
            ("pending", gpu.remap_pending),
            ("repair pending", gpu.repair_pending),
        )
        words = [word for word, on in flags if on]
        if gpu.spare_rows is not None:
            words.append(f"{_low_banks(gpu)} banks low on spare rows")
        yield Reading(
            subject=gpu.subject,
            value=", ".join(words) or "none",
            limit=f"none pending or failed, <= {limits.max_low_banks} banks low",
        )


CHECK = Check(
    name="gpu_row_remap",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
