"""PCIe links with fewer lanes than they support. Speed is not judged here: it drops while a GPU is
idle (see gpu_pcie).
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
    """``min_width``: lanes that each GPU must have; 0: as many as the link supports."""

    min_width: int = 0
    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, min_width=(0, 32))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for pci, (width, most) in _widths(facts).items():
        want = limits.min_width or most
        if width and width < want:  # 0: the kernel reports no link
            gpu = facts.gpu_at(pci)
            yield finding(
                "PCIE_WIDTH",
                subject=gpu.subject if gpu else pci,
                detail=f"{pci}: PCIe link is x{width}, expected x{want}",
                gpu=gpu.index if gpu else None,
            )


def could_see(finding: Finding, facts: NodeFacts) -> bool:
    gpus = {gpu.pci: gpu.subject for gpu in facts.gpus}
    return any(finding.subject in (pci, gpus.get(pci)) for pci in _widths(facts))


def _widths(facts: NodeFacts) -> dict[str, tuple[int, int]]:
    """PCI address → (lanes now, lanes supported): the worse of what NVML and sysfs report."""
    found: dict[str, tuple[int, int]] = {}
    reported = [(gpu.pci, gpu.pcie_width, gpu.pcie_max_width) for gpu in facts.gpus]
    reported += [(link.pci, link.width, link.max_width) for link in facts.pcie or ()]
    for pci, width, most in reported:
        if pci is None or width is None or most is None:
            continue
        before = found.get(pci, (width, most))
        found[pci] = (min(before[0], width), max(before[1], most))
    return found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for pci, (width, most) in _widths(facts).items():
        gpu = facts.gpu_at(pci)
        yield Reading(
            subject=gpu.subject if gpu else pci,
            value=f"x{width}",
            limit=f">= x{limits.min_width or most}",
        )


CHECK = Check(
    name="pcie_link",
    probe="pcie",
    also=frozenset({"nvml"}),
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
