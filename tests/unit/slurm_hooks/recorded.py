"""Recorded H100 nodes (tests/data/h100) as state of the simulated NVML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "data" / "h100"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))

_TEXTS = {
    "name": "product_name",
    "uuid": "uuid",
    "serial": "serial",
    "vbios": "vbios_version",
    "inforom": "inforom_version/img_version",
    "part": "board_part_number",
    "gsp": "gsp_firmware_version",
}
_NUMBERS = {
    "pcie_gen": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "pcie_max_gen": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "pcie_width": "pci/pci_gpu_link_info/link_widths/current_link_width",
    "pcie_max_width": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "pcie_replay": "pci/replay_counter",
    "temp": "temperature/gpu_temp",
    "margin": "temperature/gpu_temp_tlimit",
    "field.194": "temperature/gpu_temp_slow_tlimit_threshold",
    "mem_temp": "temperature/memory_temp",
    "clock_sm": "clocks/sm_clock",
    "ecc.corr.vol.sram": "ecc_errors/volatile/sram_correctable",
    "ecc.uncorr.vol.sram": "ecc_errors/volatile/sram_uncorrectable_secded",
    "ecc.corr.vol.dram": "ecc_errors/volatile/dram_correctable",
    "ecc.uncorr.vol.dram": "ecc_errors/volatile/dram_uncorrectable",
    "ecc.corr.agg.sram": "ecc_errors/aggregate/sram_correctable",
    "ecc.uncorr.agg.sram": "ecc_errors/aggregate/sram_uncorrectable_secded",
    "ecc.corr.agg.dram": "ecc_errors/aggregate/dram_correctable",
    "ecc.uncorr.agg.dram": "ecc_errors/aggregate/dram_uncorrectable",
    "remap.corr": "remapped_rows/remapped_row_corr",
    "remap.unc": "remapped_rows/remapped_row_unc",
    **{
        f"histo.{word}": f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{word}"
        for word in ("max", "high", "partial", "low", "none")
    },
}
_FLAGS = {
    "persistence": "persistence_mode",
    "mig": "mig_mode/current_mig",
    "mig_pending": "mig_mode/pending_mig",
    "ecc": "ecc_mode/current_ecc",
    "ecc_pending": "ecc_mode/pending_ecc",
    "sram_threshold": "ecc_errors/aggregate/sram_threshold_exceeded",
    "repair.channel": "ecc_errors/channel_repair_pending",
    "repair.tpc": "ecc_errors/tpc_repair_pending",
    "remap.pending": "remapped_rows/remapped_row_pending",
    "remap.failure": "remapped_rows/remapped_row_failure",
}
_YES, _NO = ("Enabled", "Yes", "Active"), ("Disabled", "No", "Not Active")
_REASONS = {
    "gpu_idle": 0x1,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
_COUNTERS = "clocks_event_reasons_counters/clocks_event_reasons_counters_"
_COMPUTE_MODES = {"Default": 0, "Exclusive_Process": 3, "Prohibited": 2}
_FABRIC_STATES = {"Not Started": 1, "In Progress": 2, "Completed": 3}


def load(name: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return said


def state_lines(recorded: Mapping[str, Any]) -> Iterator[str]:
    """The recording as state lines of nvmlsim.c. Raises KeyError for an unknown name."""
    yield f"sys.driver = {recorded['driver_version']}"
    yield f"count = {recorded['attached_gpus']}"
    for index, gpu in enumerate(recorded["gpu"]):
        for key, value in _values(gpu):
            yield f"gpu.{index}.{key} = {value}"


def _values(gpu: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    yield "bus", int(gpu["pci/pci_bus_id"].split(":")[1], 16)
    for key, path in _TEXTS.items():
        yield key, gpu[path]
    for key, path in _NUMBERS.items():
        yield key, _number(gpu[path])
    for key, path in _FLAGS.items():
        if path in gpu:
            assert gpu[path] in (*_YES, *_NO), (path, gpu[path])
            yield key, int(gpu[path] in _YES)
    yield "clocks_event", _reasons(gpu)
    yield "compute_mode", _COMPUTE_MODES[gpu["compute_mode"]]
    yield "fabric.state", _FABRIC_STATES[gpu["fabric/state"]]
    yield "fabric.status", {"Success": 0}[gpu["fabric/status"]]
    yield "mem_used", _number(gpu["fb_memory_usage/used"]) << 20
    yield from _of_the_driver(gpu)


def _of_the_driver(gpu: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    """Values that only some drivers report."""
    if "gpu_recovery_action" in gpu:
        yield "recovery_action", {"None": 0}[gpu["gpu_recovery_action"]]
    else:
        yield "fieldrc.230", 3
        yield "rc.nvmlDeviceGetMarginTemperature", 13
        yield "rc.nvmlDeviceGetRepairStatus", 13
        assert gpu["gpu_reset_status/reset_required"] == "No"
    if f"{_COUNTERS}sw_power_cap" in gpu:
        by_software, by_hardware, by_brake = (
            _number(gpu[_COUNTERS + kind]) * 1000
            for kind in ("sw_therm_slowdown", "hw_therm_slowdown", "hw_power_brake")
        )
        yield "violation.0", _number(gpu[f"{_COUNTERS}sw_power_cap"]) * 1000
        yield "violation.1", by_software + by_hardware
        yield "held.sw_heat", by_software
        yield "held.hw_heat", by_hardware
        yield "held.power_brake", by_brake
    else:
        for field in (74, 75, 269, 270, 271):
            yield f"fieldrc.{field}", 3


def _reasons(gpu: Mapping[str, str]) -> int:
    prefix = "clocks_event_reasons/clocks_event_reason_"
    return sum(bit for name, bit in _REASONS.items() if gpu[prefix + name] == "Active")


def _number(text: str) -> int:
    """``16x``, ``29 C``, ``2560 bank(s)``, ``-2 C``."""
    return int(text.split()[0].rstrip("x"))
