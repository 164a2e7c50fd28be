"""GPUs and their driver, as NVML reports them."""

from __future__ import annotations

from dataclasses import dataclass


def pci_address(text: str) -> str:
    """``00000000:5D:00.0`` (NVML), ``0000:5d:00.0`` (sysfs) and ``0000:5d:00`` (kernel log) as
    ``0000:5d:00``.
    """
    domain, _, rest = text.strip().lower().partition(":")
    return f"{domain[-4:].rjust(4, '0')}:{rest.split('.')[0]}"


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
