"""GPUs and NVSwitches on the PCI bus: all present, and all answer. The source is the kernel, not
NVML, so it also works while the driver hangs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from holdfast.vocabulary import Action
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts, PciKind, pci_address

_GONE = {PciKind.GPU: "PCI_GPU_GONE", PciKind.NVSWITCH: "NVSWITCH_GONE"}
"""Missing InfiniBand cards are reported by the check infiniband."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``nvswitches``: how many the node must have (four on an HGX H100; none in a VM whose hypervisor
    keeps them); 0: as many as this machine had before. For GPUs see ``node.expected_gpus``.

    Two passes to open: a GPU is off the bus for a moment while it is reset.
    """

    nvswitches: int = 0
    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, nvswitches=(0, 64))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    if facts.pci is None:
        return
    for device in facts.pci.devices:
        if device.answers is False:
            yield finding(
                "PCI_DEVICE_SILENT",
                subject=_subject(facts, device.pci),
                detail=f"{_WORDS[device.kind]} {device.pci} reads as all ones: off the PCI bus",
                gpu=_index(facts, device.pci),
            )
    for kind, pci in facts.pci.gone:
        if kind in _GONE and not _enough(facts, limits, kind):
            yield _gone(facts, kind, pci)
    yield from _short(facts, limits)


def _enough(facts: NodeFacts, limits: Limits, kind: PciKind) -> bool:
    """Whether the configured number of devices is present."""
    assert facts.pci is not None  # noqa: S101 - the caller checked
    return kind is PciKind.NVSWITCH and 0 < limits.nvswitches <= len(facts.pci.of(kind))


def _gone(facts: NodeFacts, kind: PciKind, pci: str) -> Finding:
    assert facts.pci is not None  # noqa: S101 - the caller checked
    before_boot = pci in facts.pci.before_boot
    since = "before this boot" if before_boot else "earlier in this boot"
    found = finding(
        _GONE[kind],
        subject=_subject(facts, pci),
        detail=f"{_WORDS[kind]} {pci} is missing; it was on the PCI bus {since}",
        gpu=_index(facts, pci) if kind is PciKind.GPU else None,
    )
    # The reboot that it requires has happened. It clears when the device is present again.
    return replace(found, action=Action.WAIT) if before_boot else found


def _short(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    """Fewer devices than expected, where the agent has not seen any go missing."""
    assert facts.pci is not None  # noqa: S101 - the caller checked
    for kind, want in ((PciKind.GPU, facts.expected_gpus), (PciKind.NVSWITCH, limits.nvswitches)):
        have = len(facts.pci.of(kind))
        if have < want and kind not in {gone for gone, _ in facts.pci.gone}:
            yield finding(
                _GONE[kind],
                subject="node",
                detail=f"{have} of {_many(want, kind)} on the PCI bus",
            )


def could_see(finding: Finding, facts: NodeFacts) -> bool:
    """False for a device that is no longer on the bus: it cannot be read."""
    if finding.code != "PCI_DEVICE_SILENT":
        return True
    devices = facts.pci.devices if facts.pci else ()
    return any(
        finding.subject == _subject(facts, device.pci) and device.answers is not None
        for device in devices
    )


_WORDS = {PciKind.GPU: "GPU", PciKind.NVSWITCH: "NVSwitch", PciKind.HCA: "HCA", PciKind.NIC: "NIC"}


def _many(count: int, kind: PciKind) -> str:
    return (
        f"{count} {_WORDS[kind]}{'' if count == 1 else 'es' if kind is PciKind.NVSWITCH else 's'}"
    )


def _subject(facts: NodeFacts, pci: str) -> str:
    gpu = facts.gpu_at(pci_address(pci))
    return gpu.subject if gpu else pci


def _index(facts: NodeFacts, pci: str) -> int | None:
    gpu = facts.gpu_at(pci_address(pci))
    return gpu.index if gpu else None


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    if facts.pci is None:
        return
    wanted = ((PciKind.GPU, facts.expected_gpus), (PciKind.NVSWITCH, limits.nvswitches))
    for kind, want in wanted:
        devices = facts.pci.of(kind)
        silent = sum(device.answers is False for device in devices)
        yield Reading(
            subject="node",
            value=f"{_many(len(devices), kind)}{f', {silent} not answering' if silent else ''}",
            limit=f">= {want}" if want else "as many as before",
        )


CHECK = Check(
    name="pci_devices",
    probe="pcie",
    also=frozenset({"nvml"}),
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
