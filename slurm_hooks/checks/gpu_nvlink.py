"""NVLinks that are down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``min_active``: links of each GPU that must be up; 0: all that it has (H100 SXM: 18)."""

    min_active: int = 0
    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, min_active=(0, 36))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    # No link up on any GPU means a node without NVLink, or Fabric Manager has not started. It does
    # not mean that every GPU is faulty.
    if not any(any(gpu.nvlinks or ()) for gpu in facts.gpus):
        return
    for gpu in facts.gpus:
        links = gpu.nvlinks
        if links is None:
            continue
        want, active = limits.min_active or len(links), sum(links)
        if active < want:
            down = ", ".join(str(link) for link, up in enumerate(links) if not up)
            yield finding(
                "NVLINK_DOWN",
                subject=gpu.subject,
                detail=f"{gpu.where}: {active} of {want} NVLinks up, down: {down}",
                gpu=gpu.index,
            )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for gpu in facts.gpus:
        if gpu.nvlinks is not None:
            want = limits.min_active or len(gpu.nvlinks)
            yield Reading(subject=gpu.subject, value=f"{sum(gpu.nvlinks)} up", limit=f">= {want}")


CHECK = Check(
    name="gpu_nvlink",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
