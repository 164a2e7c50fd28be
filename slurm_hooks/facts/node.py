"""All facts of one node, and the silence of probes."""

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
from slurm_hooks.facts.jobs import LeftoverFacts
from slurm_hooks.facts.kernel import KmsgFacts
from slurm_hooks.facts.storage import MountFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """A probe that gave no answer. ``passes`` counts consecutive ones.

    ``hung``: its deadline passed; ``stuck``: not even SIGKILL ended it.
    """

    probe: str
    why: str
    hung: bool = False
    stuck: bool = False
    passes: int = 1
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """All that is known of this node at one moment. A part that is ``None`` was not looked at.

    ``pcie`` holds the GPUs of ``pci``, which has all devices. ``expected_hcas``: the InfiniBand cards
    that the configuration names.
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
    """Why the agent's state folder takes no writes; empty: it does."""
    unconfirmed: str = ""
    """Why it is not known what the node's last return ended; empty: it is."""
    blind: tuple[Blind, ...] = field(default=())

    @property
    def gpus(self) -> tuple[GpuFacts, ...]:
        return self.nvml.gpus if self.nvml else ()

    @property
    def d_state_tasks(self) -> tuple[DStateTask, ...]:
        """Tasks in uninterruptible sleep; none also where nobody looked."""
        return self.system.d_state_tasks if self.system else ()

    @property
    def cards_on_bus(self) -> tuple[str, ...]:
        """PCI addresses of InfiniBand cards, with a driver or without; none also where nobody
        looked.
        """
        return tuple(card.pci for card in self.pci.of(PciKind.HCA)) if self.pci else ()

    def gpu_at(self, pci: str) -> GpuFacts | None:
        return next((gpu for gpu in self.gpus if gpu.pci == pci), None)
