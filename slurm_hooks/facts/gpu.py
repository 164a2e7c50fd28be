"""GPUs and their driver, as NVML reports them."""

from __future__ import annotations

from dataclasses import dataclass


def pci_address(text: str) -> str:
    """``00000000:5D:00.0`` (NVML), ``0000:5d:00.0`` (sysfs) and ``0000:5d:00`` (kernel log) as
    ``0000:5d:00``.
    """
    domain, _, rest = text.strip().lower().partition(":")
    return f"{domain[-4:].rjust(4, '0')}:{rest.split('.')[0]}"


HANDLE_CALL = "nvmlDeviceGetHandleByIndex"
"""Without this call no other call for the GPU is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that holds a compute context on a GPU. ``used_bytes`` None: unknown."""

    pid: int
    used_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFabric:
    """nvmlDeviceGetGpuFabricInfoV. ``state``: 1 not started, 2 in progress, 3 completed.

    ``status`` is the NVML return code of the registration, ``health`` a mask of two-bit and
    four-bit fields (nvml.h NVML_GPU_FABRIC_HEALTH_MASK_*; 0 = not supported), ``summary`` 1
    healthy, 2 unhealthy, 3 limited capacity, 0 not supported.
    """

    state: int
    status: int = 0
    health: int = 0
    summary: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRows:
    """How many memory banks have how many spare rows left (nvmlDeviceGetRowRemapperHistogram)."""

    full: int
    high: int
    partial: int
    low: int
    none: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDeltas:
    """What changed on one GPU since the agent's baseline, which is set when the agent first sees the
    GPU in this boot and after each GPU reset (rule 9). None: unknown, as without a baseline.

    ``link_replays``, ``link_recoveries``  of all its NVLinks in the last hour.
    ``link_crc_per_s``    mean of the last minute, of all its NVLinks.
    ``bad_links``         NVLinks whose error counters have risen since the baseline.
    ``pcie_replays_per_min``  mean of the last minute.
    ``thermal_share``     share of the last ten minutes (0 to 1) with thermal slowdown; only hardware
                          slowdown where the driver counts it separately.
    ``brake_share``       the same for the power brake. While less time is known, a lower bound.
    ``fabric_pending_s``  seconds since the fabric was first seen incomplete; 0: complete.
    """

    link_replays: int | None = None
    link_recoveries: int | None = None
    link_crc_per_s: float | None = None
    bad_links: tuple[int, ...] = ()
    pcie_replays_per_min: float | None = None
    thermal_share: float | None = None
    brake_share: float | None = None
    fabric_pending_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """One GPU as NVML reports it (names of calls: nvidia-ml-py).

    ``index``            NVML's index on this node.
    ``uuid``, ``pci``    identity; ``pci`` as ``0000:5d:00`` (domain:bus:device). None: the GPU
                         did not report it. ``serial``: of the board; it stays the same in another
                         node.
    ``state_code``       NVML return code for the GPU as a whole: 15 lost, 16 reset required;
                         else None.
    ``errors``           (call, return code) of the other failed calls.
    ``uncorrected``, ``corrected``  volatile ECC errors, DRAM and SRAM; ``…_ever``: the aggregate
                         counters, which no reset clears.
    ``uncorrected_new``  how many of ``uncorrected`` are newer than the agent's baseline (None:
                         no baseline yet).
    ``sram_threshold_exceeded``  the GPU reports that it had too many uncorrected SRAM errors.
    ``nvlinks``          state of each link, True = active; None where there is no NVLink.
    ``link_replays``, ``link_recoveries``, ``link_crc_errors``  error counters of each link since
                         the driver was loaded or the GPU reset (fields 161, 162, 163).
    ``clock_reasons``    bit mask of nvmlDeviceGetCurrentClocksEventReasons.
    ``power_violation_ns``, ``thermal_violation_ns``  how long power or heat lowered the clocks (fields 74, 75).
    ``sw_thermal_slowdown_ns``, ``hw_thermal_slowdown_ns``, ``hw_power_brake_slowdown_ns``  the same for
                         software and hardware thermal slowdown, which field 75 adds up, and for the
                         power brake (fields 269, 270, 271 of newer drivers).
    ``thermal_margin_c`` degrees left to the slowdown point (T.Limit); ``slowdown_margin_c`` is
    field 194.
    ``pcie_replays``     since the driver was loaded (field 94); a healthy H100 has 100 and more.
    ``persistence``, ``ecc_on``, ``mig``, ``compute_mode``  modes; ``…_pending``: the mode after the next
                         reset.
    ``processes``        compute processes; pids as this process's PID namespace sees them.
    ``deltas``           what changed since the agent's baseline.
    """

    index: int
    uuid: str | None = None
    pci: str | None = None
    name: str | None = None
    serial: str | None = None
    vbios: str | None = None
    inforom: str | None = None
    gsp_firmware: str | None = None
    state_code: int | None = None
    errors: tuple[tuple[str, int], ...] = ()
    uncorrected: int | None = None
    uncorrected_new: int | None = None
    uncorrected_ever: int | None = None
    corrected: int | None = None
    corrected_ever: int | None = None
    sram_uncorrected_ever: int | None = None
    sram_threshold_exceeded: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remapped_rows: int | None = None
    spare_rows: GpuRows | None = None
    repair_pending: bool | None = None
    recovery_action: int | None = None
    nvlinks: tuple[bool, ...] | None = None
    link_replays: tuple[int, ...] | None = None
    link_recoveries: tuple[int, ...] | None = None
    link_crc_errors: tuple[int, ...] | None = None
    fabric: GpuFabric | None = None
    pcie_gen: int | None = None
    pcie_max_gen: int | None = None
    pcie_width: int | None = None
    pcie_max_width: int | None = None
    pcie_replays: int | None = None
    clock_reasons: int | None = None
    power_violation_ns: int | None = None
    thermal_violation_ns: int | None = None
    sw_thermal_slowdown_ns: int | None = None
    hw_thermal_slowdown_ns: int | None = None
    hw_power_brake_slowdown_ns: int | None = None
    temperature_c: int | None = None
    memory_temperature_c: int | None = None
    thermal_margin_c: int | None = None
    slowdown_margin_c: int | None = None
    persistence: bool | None = None
    ecc_on: bool | None = None
    ecc_pending: bool | None = None
    mig: bool | None = None
    mig_pending: bool | None = None
    compute_mode: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    processes: tuple[GpuProcess, ...] | None = None
    deltas: GpuDeltas = GpuDeltas()

    @property
    def subject(self) -> str:
        return self.uuid or self.pci or f"gpu{self.index}"

    @property
    def answers(self) -> bool:
        """False for a GPU that is lost, requires a reset or has no handle: nothing else is known
        about it.
        """
        return self.state_code is None and all(call != HANDLE_CALL for call, _ in self.errors)

    @property
    def where(self) -> str:
        """The GPU for people: ``GPU 3 0000:86:00``."""
        return f"GPU {self.index} {self.pci}" if self.pci else f"GPU {self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlFacts:
    """The driver as a whole. ``init_code``: NVML's return code if its initialisation failed, else
    None.
    """

    count: int | None = None
    driver: str = ""
    init_code: int | None = None
    init_error: str = ""
    gpus: tuple[GpuFacts, ...] = ()
