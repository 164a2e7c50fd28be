"""The number of GPUs that the driver sees, against what this node is meant to have and against the
PCI bus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Two passes: while a driver reloads, the count is short for a moment."""

    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - every check has limits
    if facts.nvml is None or facts.nvml.count is None:
        return
    count = facts.nvml.count
    # More on the bus than NVML sees is right where this node was given some of the machine's GPUs,
    # none at all where this container does not see the machine's bus.
    gone = bool(facts.pcie) and len(facts.pcie or ()) < count
    if count != facts.expected_gpus or gone:
        yield finding(
            "GPU_COUNT",
            subject="node",
            detail=f"NVML sees {count} of {facts.expected_gpus} GPUs{_on_bus(facts)}",
        )


def _on_bus(facts: NodeFacts) -> str:
    """What the PCI bus says, and which GPUs only one of the two knows."""
    if facts.pcie is None:
        return ""
    there = {link.pci for link in facts.pcie}
    known = {gpu.pci for gpu in facts.gpus if gpu.pci is not None}
    said = f", {len(there)} on the PCI bus"
    if known and there - known:
        said += f"; without a driver: {', '.join(sorted(there - known))}"
    if known - there:
        said += f"; gone from the bus: {', '.join(sorted(known - there))}"
    return said


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001
    if facts.nvml is not None and facts.nvml.count is not None:
        on_bus = f", {len(facts.pcie)} on the PCI bus" if facts.pcie is not None else ""
        yield Reading(
            subject="node",
            value=f"{facts.nvml.count} GPUs{on_bus}",
            limit=f"= {facts.expected_gpus}",
        )


CHECK = Check(
    name="gpu_count",
    probe="nvml",
    also=frozenset({"pcie"}),
    limits=Limits,
    judge=judge,
    show=show,
)
