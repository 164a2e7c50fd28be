"""PCIe errors (Advanced Error Reporting) of GPUs, NVSwitches and HCAs, from the counters in sysfs.

Only errors since the baseline count. An uncorrectable error loses a transaction. Corrected errors
cost time, and many of them show that a link is about to fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts, PcieFacts, pci_address


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_correctable_per_min``: mean of ten minutes. The default is DCGM's limit for replays of a
    Gen5 x16 link, which are corrected errors too. ``max_nonfatal``, ``max_fatal``: since the
    baseline.
    """

    max_correctable_per_min: float = 31.0
    max_nonfatal: int = 0
    max_fatal: int = 0
    open_after: int = 1
    clear_after: int = 3

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_correctable_per_min=(0, 1e9), max_nonfatal=(0, 1e9), max_fatal=(0, 1e9))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for device in facts.pci.devices if facts.pci else ():
        name = f"{device.kind.name} {device.pci}"
        gpu = facts.gpu_at(pci_address(device.pci))
        subject, index = (gpu.subject, gpu.index) if gpu else (device.pci, None)
        if (device.fatal_new or 0) > limits.max_fatal:
            yield finding(
                "PCIE_AER_FATAL",
                subject=subject,
                detail=f"{name}: {device.fatal_new} fatal PCIe errors",
                gpu=index,
            )
        errors = ", ".join(_not_fatal(device, limits))
        if errors:
            yield finding("PCIE_AER", subject=subject, detail=f"{name}: {errors}", gpu=index)


def _not_fatal(device: PcieFacts, limits: Limits) -> Iterator[str]:
    if (device.nonfatal_new or 0) > limits.max_nonfatal:
        yield f"{device.nonfatal_new} uncorrectable PCIe errors"
    if (device.correctable_per_min or 0) > limits.max_correctable_per_min:
        yield f"{device.correctable_per_min:.0f} corrected PCIe errors per minute"


def could_see(finding: Finding, facts: NodeFacts) -> bool:
    for device in facts.pci.devices if facts.pci else ():
        gpu = facts.gpu_at(pci_address(device.pci))
        if finding.subject in (device.pci, gpu.subject if gpu else None):
            deltas = (device.fatal_new, device.nonfatal_new, device.correctable_per_min)
            return None not in deltas
    return False


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for device in facts.pci.devices if facts.pci else ():
        if device.fatal is None and device.correctable is None:
            continue
        gpu = facts.gpu_at(pci_address(device.pci))
        new = [
            "?" if value is None else f"{value:g}"
            for value in (device.fatal_new, device.nonfatal_new, device.correctable_per_min)
        ]
        yield Reading(
            subject=gpu.subject if gpu else device.pci,
            value=f"{new[0]} fatal, {new[1]} uncorrectable, {new[2]}/min corrected",
            limit=(
                f"<= {limits.max_fatal}, <= {limits.max_nonfatal}, "
                f"<= {limits.max_correctable_per_min:g}/min"
            ),
        )


CHECK = Check(
    name="pcie_aer",
    probe="pcie",
    also=frozenset({"nvml"}),
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
