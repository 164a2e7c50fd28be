"""Kernel modules that a GPU node requires."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``gpu``: required on a node with GPUs. ``fabric``: required on a node with InfiniBand cards,
    on its PCI bus or in ``checks.infiniband.limits.hcas``. ``advised``: without nvidia_peermem, GPU
    and network card exchange data through host memory (unless the driver exports dma-bufs); without
    gdrdrv, small copies are slower.
    """

    gpu: frozenset[str] = frozenset({"nvidia", "nvidia_uvm"})
    fabric: frozenset[str] = frozenset({"ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"})
    advised: frozenset[str] = frozenset({"nvidia_peermem", "gdrdrv"})
    open_after: int = 2
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    loaded = _loaded(facts)
    if loaded is None:
        return
    for name in sorted(_needed(facts, limits) - loaded):
        yield finding("MODULE_MISSING", subject=name, detail=f"kernel module {name} is not loaded")
    for name in sorted(_advised(facts, limits) - loaded):
        yield finding("MODULE_ADVISED", subject=name, detail=f"kernel module {name} is not loaded")


def _loaded(facts: NodeFacts) -> frozenset[str] | None:
    return facts.system.modules if facts.system else None


def _needed(facts: NodeFacts, limits: Limits) -> frozenset[str]:
    gpu = limits.gpu if facts.expected_gpus else frozenset()
    # Ports are no criterion: without the driver there are none.
    fabric = facts.cards_on_bus or facts.expected_hcas
    return gpu | (limits.fabric if fabric else frozenset())


def _advised(facts: NodeFacts, limits: Limits) -> frozenset[str]:
    network = facts.ports or facts.cards_on_bus or facts.expected_hcas
    return limits.advised if facts.expected_gpus and network else frozenset()


def could_see(finding: Finding, facts: NodeFacts) -> bool:  # noqa: ARG001 - the type of every check
    return _loaded(facts) is not None


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    loaded = _loaded(facts)
    if loaded is None:
        return
    for name in sorted(_needed(facts, limits) | _advised(facts, limits)):
        limit = "loaded" if name in _needed(facts, limits) else "advised"
        value = "loaded" if name in loaded else "not loaded"
        yield Reading(subject=name, value=value, limit=limit)


CHECK = Check(
    name="kernel_modules",
    probe="system",
    also=frozenset({"infiniband", "pcie"}),
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
