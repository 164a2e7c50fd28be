"""The number of GPUs that the driver sees, against what this node is meant to have."""

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
    """Two passes: while a driver reloads, the count is short for a moment."""

    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - every check has limits
    if facts.nvml is None or facts.nvml.count is None or facts.nvml.count == facts.expected_gpus:
        return
    on_bus = f", {len(facts.pcie)} on the PCI bus" if facts.pcie is not None else ""
    yield finding(
        "GPU_COUNT",
        subject="node",
        detail=f"NVML sees {facts.nvml.count} of {facts.expected_gpus} GPUs{on_bus}",
    )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001
    if facts.nvml is not None and facts.nvml.count is not None:
        yield Reading(
            subject="node", value=f"{facts.nvml.count} GPUs", limit=f"= {facts.expected_gpus}"
        )
