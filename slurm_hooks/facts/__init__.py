"""Facts: the frozen values that probes return and checks judge.

A field that is ``None`` is unknown: the hardware or the driver does not support it, or the probe
could not read it. Unknown never means healthy.
"""

from __future__ import annotations

from slurm_hooks.facts.fabric import (
    LinkFacts,
    PcieFacts,
    PciFacts,
    PciKind,
    PortDeltas,
    PortFacts,
)
from slurm_hooks.facts.gpu import (
    GpuDeltas,
    GpuFabric,
    GpuFacts,
    GpuProcess,
    GpuRows,
    NvmlFacts,
    pci_address,
)
from slurm_hooks.facts.host import (
    ClockFacts,
    DcgmFacts,
    DcgmIncident,
    DiskFacts,
    DStateTask,
    HostFacts,
    ServiceFacts,
    SlurmdFacts,
    SystemFacts,
)
from slurm_hooks.facts.kernel import KernelEvent, KmsgFacts, XidEvent
from slurm_hooks.facts.leftovers import LeftoverFacts
from slurm_hooks.facts.node import Blind, NodeFacts
from slurm_hooks.facts.storage import MountFacts, MountState

__all__ = [
    "Blind",
    "ClockFacts",
    "DStateTask",
    "DcgmFacts",
    "DcgmIncident",
    "DiskFacts",
    "GpuDeltas",
    "GpuFabric",
    "GpuFacts",
    "GpuProcess",
    "GpuRows",
    "HostFacts",
    "KernelEvent",
    "KmsgFacts",
    "LeftoverFacts",
    "LinkFacts",
    "MountFacts",
    "MountState",
    "NodeFacts",
    "NvmlFacts",
    "PciFacts",
    "PciKind",
    "PcieFacts",
    "PortDeltas",
    "PortFacts",
    "ServiceFacts",
    "SlurmdFacts",
    "SystemFacts",
    "XidEvent",
    "pci_address",
]
