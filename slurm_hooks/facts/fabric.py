"""InfiniBand ports and PCI devices, from sysfs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class PortDeltas:
    """How the error counters of one port changed since the agent's baseline (rule 9). None: unknown
    (no baseline yet, or the counter is at its maximum).

    ``symbol_ber``  symbol errors of the last 125 minutes per bit that the link carries in that
                    time. While fewer minutes are known, it is a lower bound.
    ``integrity``, ``overruns``  local link integrity errors and excessive buffer overruns.
    ``recoveries_per_min``, ``receive_errors_per_s``, ``discards_per_s``  means of ten minutes.
    """

    symbol_ber: float | None = None
    integrity: int | None = None
    overruns: int | None = None
    recoveries_per_min: float | None = None
    receive_errors_per_s: float | None = None
    discards_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    """One InfiniBand port from sysfs.

    ``seen_active``  it was ACTIVE before on this node, so DOWN is a change.
    ``downs_age_s``  seconds since each loss of its link in the last day; None: no baseline yet, or
                     the counter is at its maximum.
    ``rate_gbps``, ``best_gbps``  rate of the link now, and the highest that it had on this node.
    ``guid``, ``firmware``, ``board``  of its card. ``counters``  the raw error counters.
    ``present``      False: it was present before and is missing now. ``before_boot``: it was present
                     only before this boot. ``now_called``: the name that the same card has now.
    """

    device: str
    port: int
    state: str
    phys_state: str = ""
    rate: str = ""
    link_layer: str = ""
    link_downed: int | None = None
    seen_active: bool = False
    downs_age_s: tuple[float, ...] | None = None
    rate_gbps: float | None = None
    best_gbps: float | None = None
    guid: str = ""
    firmware: str = ""
    board: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    present: bool = True
    before_boot: bool = False
    now_called: str = ""
    deltas: PortDeltas = PortDeltas()

    @property
    def subject(self) -> str:
        return f"{self.device}/{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFacts:
    """Bit error rates of one card's link (mlxlink). ``minutes``: how long the counters have run.
    ``effective_ber``: after error correction; ``symbol_ber``: after retransmission as well.
    """

    device: str
    minutes: float | None = None
    effective_ber: float | None = None
    symbol_ber: float | None = None


class PciKind(str, Enum):
    """The kinds of PCI devices that Holdfast reads."""

    GPU = "gpu"
    NVSWITCH = "nvswitch"
    HCA = "hca"
    """An InfiniBand card."""
    NIC = "nic"
    """A Mellanox Ethernet card: for RDMA, or for the host's network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieFacts:
    """One GPU, NVSwitch, HCA or NIC on the PCI bus; ``pci`` as ``0000:5d:00``, speeds in GT/s.

    ``answers``     False: its configuration space reads as all ones; the device is off the bus.
    ``correctable``, ``nonfatal``, ``fatal``  AER errors since the kernel found the device
                    (aer_dev_*, TOTAL_ERR_*).
    ``correctable_per_min``  mean of the last ten minutes.
    ``nonfatal_new``, ``fatal_new``  since the agent's baseline; None: unknown.
    """

    pci: str
    kind: PciKind = PciKind.GPU
    width: int | None = None
    max_width: int | None = None
    speed_gts: float | None = None
    max_speed_gts: float | None = None
    answers: bool | None = None
    correctable: int | None = None
    nonfatal: int | None = None
    fatal: int | None = None
    correctable_per_min: float | None = None
    nonfatal_new: int | None = None
    fatal_new: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PciFacts:
    """The PCI bus. ``gone``: (kind, address) of devices that were present before and are missing.
    ``before_boot``: the addresses of those that were present only before this boot.
    """

    devices: tuple[PcieFacts, ...] = ()
    gone: tuple[tuple[PciKind, str], ...] = ()
    before_boot: frozenset[str] = frozenset()

    def of(self, kind: PciKind) -> tuple[PcieFacts, ...]:
        return tuple(device for device in self.devices if device.kind is kind)
