"""A GPU that the driver reports as lost: it fell off the PCI bus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts

_GPU_IS_LOST = 15
"""NVML_ERROR_GPU_IS_LOST"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """One pass: the driver's report is enough."""

    open_after: int = 1
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - the type of every check
    for gpu in facts.gpus:
        if gpu.state_code == _GPU_IS_LOST:
            yield finding(
                "GPU_LOST",
                subject=gpu.subject,
                detail=f"{gpu.where} is lost (NVML code 15)",
                gpu=gpu.index,
            )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001
    for gpu in facts.gpus:
        lost = gpu.state_code == _GPU_IS_LOST
        yield Reading(subject=gpu.subject, value="lost" if lost else "answers", limit="answers")


CHECK = Check(
    name="gpu_lost",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
