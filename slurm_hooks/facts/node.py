"""All facts about one node, and the probes without an answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurm_hooks.facts.fabric import LinkFacts, PcieFacts, PciFacts, PciKind, PortFacts
from slurm_hooks.facts.gpu import GpuFacts, NvmlFacts
from slurm_hooks.facts.host import (
    ClockFacts,
    DcgmFacts,
    DStateTask,
    HostFacts,
    SlurmdFacts,
    SystemFacts,
)
from slurm_hooks.facts.kernel import KmsgFacts
from slurm_hooks.facts.leftovers import LeftoverFacts
from slurm_hooks.facts.storage import MountFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """A probe that gave no answer. ``passes``: for how many consecutive passes.

    ``hung``: its deadline passed. ``stuck``: SIGKILL did not end its worker, and the worker does not
    only wait for a CPU. ``evidence``: where the worker is blocked, from /proc.
    """

    probe: str
    why: str
    hung: bool = False
    stuck: bool = False
    passes: int = 1
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """All facts about this node at one moment. A part that is ``None`` was not read.

    ``pcie``: the GPUs in ``pci``, which has all devices. ``expected_hcas``: the InfiniBand cards in
    the configuration.
    """

    expected_gpus: int
    expected_hcas: frozenset[str] = frozenset()
    boot_id: str = ""
    nvml: NvmlFacts | None = None
    kmsg: KmsgFacts | None = None
    mounts: tuple[MountFacts, ...] | None = None
    ports: tuple[PortFacts, ...] | None = None
    links: tuple[LinkFacts, ...] | None = None
    pcie: tuple[PcieFacts, ...] | None = None
    pci: PciFacts | None = None
    clock: ClockFacts | None = None
    host: HostFacts | None = None
    system: SystemFacts | None = None
    slurmd: SlurmdFacts | None = None
    dcgm: DcgmFacts | None = None
    leftovers: tuple[LeftoverFacts, ...] | None = None
    unwritten: str = ""
    """Why the agent's state folder is not writable. Empty if it is."""
    unconfirmed: str = ""
    """Why it is not known which drain the last return to service ended. Empty if it is known."""
    blind: tuple[Blind, ...] = field(default=())

    @property
    def gpus(self) -> tuple[GpuFacts, ...]:
        return self.nvml.gpus if self.nvml else ()

    @property
    def d_state_tasks(self) -> tuple[DStateTask, ...]:
        """Tasks in uninterruptible sleep; empty also if they were not read."""
        return self.system.d_state_tasks if self.system else ()

    @property
    def cards_on_bus(self) -> tuple[str, ...]:
        """PCI addresses of InfiniBand cards, with or without a driver; empty also if not read."""
        return tuple(card.pci for card in self.pci.of(PciKind.HCA)) if self.pci else ()

    def gpu_at(self, pci: str) -> GpuFacts | None:
        return next((gpu for gpu in self.gpus if gpu.pci == pci), None)
