"""Row remapping of HBM: pending (a reset applies it) and failed (the GPU is worn out)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts

NEEDS = "nvml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Both flags are latched by the hardware: one sighting is enough."""

    open_after: int = 1
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - every check has limits
    for gpu in facts.gpus:
        where = f"GPU {gpu.index} {gpu.pci or ''}"
        if gpu.remap_failed:
            yield finding(
                "ROW_REMAP_FAILED",
                subject=gpu.subject,
                detail=f"{where}: row remapping failed, no spare row left",
                gpu=gpu.index,
            )
        if gpu.remap_pending:
            yield finding(
                "ROW_REMAP_PENDING",
                subject=gpu.subject,
                detail=f"{where}: a row remap waits for a GPU reset",
                gpu=gpu.index,
            )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001
    for gpu in facts.gpus:
        if gpu.remap_pending is not None:
            words = [
                w for w, on in (("failed", gpu.remap_failed), ("pending", gpu.remap_pending)) if on
            ]
            yield Reading(subject=gpu.subject, value="+".join(words) or "none", limit="none")
