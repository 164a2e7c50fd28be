"""What probes give and checks judge: frozen values, no opinion in them.

A field that is ``None`` was not reported (the hardware or the driver does not support it, or the
probe could not look): no opinion, never "healthy".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """One GPU as NVML reports it (names of calls: nvidia-ml-py).

    ``index``            NVML's index on this node.
    ``uuid``, ``pci``    identity; ``pci`` as ``0000:5d:00`` (domain:bus:device). None when the GPU
              did not say.
    ``state_code``       NVML return code that speaks of the GPU as a whole: 15 lost, 16 reset
                         required; else None.
    ``errors``           (call, return code) of calls that failed otherwise.
    ``clock_reasons``    bit mask of nvmlDeviceGetCurrentClocksEventReasons.
    ``thermal_margin_c`` degrees left to the slowdown point (T.Limit); ``slowdown_margin_c`` is
    field 194.
    ``nvlinks``          state of each link, True = active; None where there is no NVLink.
    ``uncorrected``      volatile uncorrected ECC errors, DRAM and SRAM.
    ``uncorrected_new``  of these, how many came since the agent's baseline (None: no baseline yet).
    """

    index: int
    uuid: str | None = None
    pci: str | None = None
    name: str | None = None
    state_code: int | None = None
    errors: tuple[tuple[str, int], ...] = ()
    uncorrected: int | None = None
    uncorrected_new: int | None = None
    sram_threshold_exceeded: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    recovery_action: int | None = None
    nvlinks: tuple[bool, ...] | None = None
    pcie_gen: int | None = None
    pcie_max_gen: int | None = None
    pcie_width: int | None = None
    pcie_max_width: int | None = None
    clock_reasons: int | None = None
    temperature_c: int | None = None
    thermal_margin_c: int | None = None
    slowdown_margin_c: int | None = None

    @property
    def subject(self) -> str:
        return self.uuid or self.pci or f"gpu{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlFacts:
    """The driver as a whole. ``init_code`` is NVML's return code of the call that failed, None when
    it answered.
    """

    count: int | None = None
    driver: str = ""
    init_code: int | None = None
    init_error: str = ""
    gpus: tuple[GpuFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """One ``NVRM: Xid`` kernel record (or the Xid-less "fallen off the bus", read as 79).

    ``pci`` as ``0000:5d:00``; ``at_s`` is seconds since boot by the kernel's clock; ``gpu`` and
    ``uuid`` are joined from the node's inventory, None when unknown. ``recovery`` is what an Xid
    154 says ("None", "Node Reboot Required").
    ``consequence`` is True where the driver itself names an earlier Xid as the cause.
    """

    xid: int
    pci: str
    seq: int
    at_s: float
    text: str = ""
    gpu: int | None = None
    uuid: str | None = None
    recovery: str | None = None
    consequence: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsgFacts:
    """The kernel log: Xids of this boot that are not yet resolved, and records that nobody could
    read.
    """

    xids: tuple[XidEvent, ...] = ()
    lost_records: int = 0


class MountState(str, Enum):
    OK = "ok"
    GONE = "gone"
    HUNG = "hung"
    FULL = "full"
    READ_ONLY = "read-only"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class MountFacts:
    """One mount point: what a tiny write, read back and remove did there, and how long it took."""

    path: str
    state: MountState
    detail: str = ""
    latency_s: float | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    """One InfiniBand port from sysfs. ``seen_active``: it was ACTIVE before on this node, so DOWN
    is a change.

    ``downs_age_s``: how long ago each loss of its link was, as far as the agent remembers (a day);
    None: no baseline yet, or a counter that can count no more.
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

    @property
    def subject(self) -> str:
        return f"{self.device}/{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieFacts:
    """PCIe link of one NVIDIA device from sysfs; ``pci`` as ``0000:5d:00``, speeds in GT/s."""

    pci: str
    width: int | None = None
    max_width: int | None = None
    speed_gts: float | None = None
    max_speed_gts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFacts:
    """This node's clock minus slurmctld's; the true value lies within ``error_s`` of ``skew_s``."""

    skew_s: float
    error_s: float


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
    """All that is known of this node at one moment. A part that is ``None`` was not looked at."""

    expected_gpus: int
    boot_id: str = ""
    nvml: NvmlFacts | None = None
    kmsg: KmsgFacts | None = None
    mounts: tuple[MountFacts, ...] | None = None
    ports: tuple[PortFacts, ...] | None = None
    pcie: tuple[PcieFacts, ...] | None = None
    clock: ClockFacts | None = None
    blind: tuple[Blind, ...] = field(default=())

    @property
    def gpus(self) -> tuple[GpuFacts, ...]:
        return self.nvml.gpus if self.nvml else ()

    def gpu_at(self, pci: str) -> GpuFacts | None:
        return next((gpu for gpu in self.gpus if gpu.pci == pci), None)


def pci_address(text: str) -> str:
    """``00000000:5D:00.0`` (NVML), ``0000:5d:00.0`` (sysfs) and ``0000:5d:00`` (kernel log) as
    ``0000:5d:00``.
    """
    domain, _, rest = text.strip().lower().partition(":")
    return f"{domain[-4:].rjust(4, '0')}:{rest.split('.')[0]}"
