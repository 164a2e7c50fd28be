"""One GPU, read through NVML: all values that checks, job reports and history need.

Values that hardly change (names, versions, the maximum of a link) are read at first and then every
30 passes. The others are read in every pass, as many as possible in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from slurm_hooks.facts import GpuFabric, GpuFacts, GpuProcess, GpuRows, pci_address
from slurm_hooks.facts.gpu import HANDLE_CALL
from slurm_hooks.probes.nvml import calls as fields
from slurm_hooks.probes.nvml.calls import Batch, GpuUnavailable, NvmlCalls

_MAX_LINKS = 36
_UNCORRECTED, _CORRECTED, _VOLATILE, _AGGREGATE = 1, 0, 0, 1
"""nvmlMemoryErrorType_t, nvmlEccCounterType_t."""
_GPU_SENSOR = 0
_MEMORY_V2 = 0x02000028
"""nvmlMemory_v2: "used" does not include memory that the driver reserves."""
_FABRIC_NOT_SUPPORTED = 0

_FIELDS = (
    fields.LINK_COUNT,
    fields.ECC_MODE,
    fields.ECC_MODE_PENDING,
    fields.POWER_VIOLATION,
    fields.THERMAL_VIOLATION,
    fields.MEMORY_TEMPERATURE,
    fields.PCIE_REPLAYS,
    fields.SLOWDOWN_MARGIN,
    fields.RECOVERY_ACTION,
    fields.SW_THERMAL_SLOWDOWN,
    fields.HW_THERMAL_SLOWDOWN,
    fields.HW_POWER_BRAKE_SLOWDOWN,
)
_OF_A_LINK = (
    fields.LINK_STATE,
    fields.LINK_REPLAYS,
    fields.LINK_RECOVERIES,
    fields.LINK_CRC_ERRORS,
)


def _batch(links: int) -> Batch:
    """All fields of a GPU with this many NVLinks: its own, then each field of all links."""
    own = [(number, 0) for number in _FIELDS]
    return Batch([*own, *((number, link) for number in _OF_A_LINK for link in range(links))])


_AGAIN_PASSES = 30
"""After this many passes the constant values are read again, because an InfoROM may become corrupt.
Different GPUs do so in different passes.
"""


class Gpu:
    """The GPU at one index, for as long as the driver stays open."""

    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml, self._index = nvml, index
        self._constant: dict[str, Any] = {}
        self._complete = False
        self._passes = index * 3
        self._links = 0
        self._batch = _batch(0)

    def read(self) -> GpuFacts:
        calls = NvmlCalls(self._nvml)
        values: dict[str, Any] = {}
        try:
            handle = calls.call(HANDLE_CALL, self._index)
            if handle is not None:
                self._read_constant(calls, handle)
                for part in (self._values, _memory, _clocks, _modes, _use):
                    values.update(part(calls, handle))
        except GpuUnavailable as unavailable:
            values["state_code"] = unavailable.args[0]
        return GpuFacts(
            index=self._index, errors=tuple(calls.errors), **{**self._constant, **values}
        )

    def _read_constant(self, calls: NvmlCalls, handle: Any) -> None:
        """Read identity and constant values. Another UUID at this index is another GPU."""
        uuid = calls.text("nvmlDeviceGetUUID", handle)
        self._passes += 1
        due = self._passes % _AGAIN_PASSES == 0
        if self._complete and not due and uuid == self._constant["uuid"]:
            return
        # The address first: it identifies a GPU that is lost later in this read.
        pci = calls.call("nvmlDeviceGetPciInfo", handle)
        self._constant = {"uuid": uuid, "pci": None if pci is None else _address(pci.busId)}
        self._constant |= {
            "name": calls.text("nvmlDeviceGetName", handle),
            "serial": calls.text("nvmlDeviceGetSerial", handle),
            "vbios": calls.text("nvmlDeviceGetVbiosVersion", handle),
            "inforom": calls.text("nvmlDeviceGetInforomImageVersion", handle),
            "gsp_firmware": calls.text("nvmlDeviceGetGspFirmwareVersion", handle),
            "pcie_max_gen": calls.call("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            "pcie_max_width": calls.call("nvmlDeviceGetMaxPcieLinkWidth", handle),
        }
        self._complete = not calls.errors  # failed calls are repeated in the next pass

    def _values(self, calls: NvmlCalls, handle: Any) -> dict[str, Any]:
        """All field values. Those of the links are added once their number is known."""
        values = calls.fields(handle, self._batch)
        links = min(values[0] or 0, _MAX_LINKS)
        if links != self._links:
            self._links, self._batch = links, _batch(links)
            values = calls.fields(handle, self._batch)
        own = dict(zip(_FIELDS, values, strict=False))
        return {
            "recovery_action": own[fields.RECOVERY_ACTION],
            "slowdown_margin_c": own[fields.SLOWDOWN_MARGIN],
            "memory_temperature_c": own[fields.MEMORY_TEMPERATURE],
            "pcie_replays": own[fields.PCIE_REPLAYS],
            "power_violation_ns": own[fields.POWER_VIOLATION],
            "thermal_violation_ns": own[fields.THERMAL_VIOLATION],
            "sw_thermal_slowdown_ns": own[fields.SW_THERMAL_SLOWDOWN],
            "hw_thermal_slowdown_ns": own[fields.HW_THERMAL_SLOWDOWN],
            "hw_power_brake_slowdown_ns": own[fields.HW_POWER_BRAKE_SLOWDOWN],
            "ecc_on": _truth(own[fields.ECC_MODE]),
            "ecc_pending": _truth(own[fields.ECC_MODE_PENDING]),
            **_nvlinks(calls, handle, links, values[len(_FIELDS) :]),
        }


def _nvlinks(
    calls: NvmlCalls, handle: Any, links: int, values: Sequence[int | None]
) -> dict[str, tuple[int, ...] | tuple[bool, ...] | None]:
    if not links:
        return {}
    states, replays, recoveries, crc_errors = (
        _all(values[links * kind : links * (kind + 1)]) for kind in range(len(_OF_A_LINK))
    )
    if states is None:  # a driver without this field
        states = _all(
            [calls.call("nvmlDeviceGetNvLinkState", handle, link) for link in range(links)]
        )
    return {
        "nvlinks": None if states is None else tuple(state == 1 for state in states),
        "link_replays": replays,
        "link_recoveries": recoveries,
        "link_crc_errors": crc_errors,
    }


def _all(values: Sequence[int | None]) -> tuple[int, ...] | None:
    """None unless every link has a value."""
    return None if None in values else cast("tuple[int, ...]", tuple(values))


def _memory(calls: NvmlCalls, handle: Any) -> dict[str, Any]:
    def errors(kind: int, lifetime: int) -> Any:
        return calls.call("nvmlDeviceGetTotalEccErrors", handle, kind, lifetime)

    values: dict[str, Any] = {
        "uncorrected": errors(_UNCORRECTED, _VOLATILE),
        "uncorrected_ever": errors(_UNCORRECTED, _AGGREGATE),
        "corrected": errors(_CORRECTED, _VOLATILE),
        "corrected_ever": errors(_CORRECTED, _AGGREGATE),
    }
    sram = calls.filled("nvmlDeviceGetSramEccErrorStatus", handle, "c_nvmlEccSramErrorStatus_v1_t")
    if sram is not None:
        values["sram_threshold_exceeded"] = bool(sram.bThresholdExceeded)
        ever = sram.aggregateUncParity + sram.aggregateUncSecDed
        values["sram_uncorrected_ever"] = int(ever)
    rows = calls.call("nvmlDeviceGetRemappedRows", handle)
    if rows is not None:
        values["remapped_rows"] = int(rows[0]) + int(rows[1])
        values["remap_pending"], values["remap_failed"] = bool(rows[2]), bool(rows[3])
    banks = calls.call("nvmlDeviceGetRowRemapperHistogram", handle)
    if banks is not None:
        values["spare_rows"] = GpuRows(
            full=banks.max, high=banks.high, partial=banks.partial, low=banks.low, none=banks.none
        )
    repair = calls.call("nvmlDeviceGetRepairStatus", handle)
    if repair is not None:
        values["repair_pending"] = any(repair)
    return values


def _clocks(calls: NvmlCalls, handle: Any) -> dict[str, Any]:
    reasons = calls.call("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:  # the name before R535
        reasons = calls.call("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return {
        "clock_reasons": reasons,
        "temperature_c": calls.call("nvmlDeviceGetTemperature", handle, _GPU_SENSOR),
        "thermal_margin_c": calls.call("nvmlDeviceGetMarginTemperature", handle),
        "pcie_gen": calls.call("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "pcie_width": calls.call("nvmlDeviceGetCurrPcieLinkWidth", handle),
    }


def _modes(calls: NvmlCalls, handle: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "persistence": _truth(calls.call("nvmlDeviceGetPersistenceMode", handle)),
        "compute_mode": calls.call("nvmlDeviceGetComputeMode", handle),
    }
    mig = calls.call("nvmlDeviceGetMigMode", handle)
    if mig is not None:
        values["mig"], values["mig_pending"] = bool(mig[0]), bool(mig[1])
    # Version 3 adds the summary; drivers before R575 only support version 2.
    for kind in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        fabric = calls.filled("nvmlDeviceGetGpuFabricInfoV", handle, kind)
        if fabric is not None:
            values["fabric"] = _fabric(fabric)
            break
    return values


def _fabric(info: Any) -> GpuFabric | None:
    if info.state & 0xFF == _FABRIC_NOT_SUPPORTED:
        return None
    return GpuFabric(
        state=int(info.state) & 0xFF,  # one byte in the driver's struct
        status=int(info.status),
        health=int(info.healthMask),
        summary=int(getattr(info, "healthSummary", 0)),
    )


def _use(calls: NvmlCalls, handle: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    memory = calls.call("nvmlDeviceGetMemoryInfo", handle, _MEMORY_V2)
    if memory is not None:
        values["memory_used_bytes"] = int(memory.used)
        values["memory_total_bytes"] = int(memory.total)
    found = calls.call("nvmlDeviceGetComputeRunningProcesses_v3", handle)
    if found is not None:
        values["processes"] = tuple(
            GpuProcess(pid=int(process.pid), used_bytes=process.usedGpuMemory) for process in found
        )
    return values


def _truth(value: int | None) -> bool | None:
    return None if value is None else value == 1


def _address(bus_id: Any) -> str:
    text = bus_id.decode(errors="replace") if isinstance(bus_id, bytes) else str(bus_id)
    return pci_address(text)
