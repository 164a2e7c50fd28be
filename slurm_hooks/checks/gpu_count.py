"""The number of GPUs that the driver sees, compared with ``node.expected_gpus`` and the PCI bus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Two passes: while the driver reloads, GPUs are missing for a moment."""

    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - the type of every check
    if facts.nvml is None or facts.nvml.count is None:
        return
    count = facts.nvml.count
    # NVML may see fewer GPUs than the bus has: the node may own only some of the machine's GPUs.
    # The bus may be empty: this container may not see it.
    gone = bool(facts.pcie) and len(facts.pcie or ()) < count
    if count != facts.expected_gpus or gone:
        yield finding(
            "GPU_COUNT",
            subject="node",
            detail=f"NVML sees {count} of {facts.expected_gpus} GPUs{_on_bus(facts)}",
        )


def _on_bus(facts: NodeFacts) -> str:
    """How many GPUs the PCI bus has, and which of them NVML does not see, or the other way round."""
    if facts.pcie is None:
        return ""
    on_bus = {link.pci for link in facts.pcie}
    known = {gpu.pci for gpu in facts.gpus if gpu.pci is not None}
    text = f", {len(on_bus)} on the PCI bus"
    if known and on_bus - known:
        text += f"; without a driver: {', '.join(sorted(on_bus - known))}"
    if known - on_bus:
        text += f"; missing on the bus: {', '.join(sorted(known - on_bus))}"
    return text


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
