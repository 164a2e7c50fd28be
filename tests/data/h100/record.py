"""Turn what ``nvidia-smi -q -x`` or ``nvidia-smi -q`` printed on a node into a file of readings.

    python tests/data/h100/record.py qx.xml "where it is from" >tests/data/h100/NAME.json

Values stay as printed, under the names that the XML has for them. Only what Holdfast looks at is
kept; UUIDs and serial numbers are replaced, because they name one piece of hardware.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path

KEPT: Mapping[str, str] = {
    "product_name": "Product Name",
    "persistence_mode": "Persistence Mode",
    "mig_mode/current_mig": "MIG Mode/Current",
    "mig_mode/pending_mig": "MIG Mode/Pending",
    "vbios_version": "VBIOS Version",
    "board_part_number": "Board Part Number",
    "inforom_version/img_version": "Inforom Version/Image Version",
    "gsp_firmware_version": "GSP Firmware Version",
    "gpu_recovery_action": "GPU Recovery Action",
    "gpu_reset_status/reset_required": "GPU Reset Status/Reset Required",
    "gpu_reset_status/drain_and_reset_recommended": "GPU Reset Status/Drain and Reset Recommended",
    "pci/pci_bus_id": "PCI/Bus Id",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "PCI/GPU Link Info/PCIe Generation/Max",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "PCI/GPU Link Info/PCIe Generation/Current",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "PCI/GPU Link Info/Link Width/Max",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "PCI/GPU Link Info/Link Width/Current",
    "pci/replay_counter": "PCI/Replays Since Reset",
    "clocks_event_reasons/clocks_event_reason_gpu_idle": "Clocks Event Reasons/Idle",
    "clocks_event_reasons/clocks_event_reason_sw_power_cap": "Clocks Event Reasons/SW Power Cap",
    "clocks_event_reasons/clocks_event_reason_hw_slowdown": "Clocks Event Reasons/HW Slowdown",
    "clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown":
        "Clocks Event Reasons/HW Slowdown/HW Thermal Slowdown",
    "clocks_event_reasons/clocks_event_reason_hw_power_brake_slowdown":
        "Clocks Event Reasons/HW Slowdown/HW Power Brake Slowdown",
    "clocks_event_reasons/clocks_event_reason_sw_thermal_slowdown":
        "Clocks Event Reasons/SW Thermal Slowdown",
    "clocks_event_reasons_counters/clocks_event_reasons_counters_sw_power_cap": "-",
    "clocks_event_reasons_counters/clocks_event_reasons_counters_sw_therm_slowdown": "-",
    "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_therm_slowdown": "-",
    "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_power_brake": "-",
    "fb_memory_usage/total": "FB Memory Usage/Total",
    "fb_memory_usage/used": "FB Memory Usage/Used",
    "compute_mode": "Compute Mode",
    "ecc_mode/current_ecc": "ECC Mode/Current",
    "ecc_mode/pending_ecc": "ECC Mode/Pending",
    "ecc_errors/volatile/sram_correctable": "ECC Errors/Volatile/SRAM Correctable",
    "ecc_errors/volatile/sram_uncorrectable_parity": "ECC Errors/Volatile/SRAM Uncorrectable Parity",
    "ecc_errors/volatile/sram_uncorrectable_secded":
        "ECC Errors/Volatile/SRAM Uncorrectable SEC-DED",
    "ecc_errors/volatile/dram_correctable": "ECC Errors/Volatile/DRAM Correctable",
    "ecc_errors/volatile/dram_uncorrectable": "ECC Errors/Volatile/DRAM Uncorrectable",
    "ecc_errors/aggregate/sram_correctable": "ECC Errors/Aggregate/SRAM Correctable",
    "ecc_errors/aggregate/sram_uncorrectable_parity":
        "ECC Errors/Aggregate/SRAM Uncorrectable Parity",
    "ecc_errors/aggregate/sram_uncorrectable_secded":
        "ECC Errors/Aggregate/SRAM Uncorrectable SEC-DED",
    "ecc_errors/aggregate/dram_correctable": "ECC Errors/Aggregate/DRAM Correctable",
    "ecc_errors/aggregate/dram_uncorrectable": "ECC Errors/Aggregate/DRAM Uncorrectable",
    "ecc_errors/aggregate/sram_threshold_exceeded": "ECC Errors/Aggregate/SRAM Threshold Exceeded",
    "ecc_errors/channel_repair_pending": "ECC Errors/Channel Repair Pending",
    "ecc_errors/tpc_repair_pending": "ECC Errors/TPC Repair Pending",
    "remapped_rows/remapped_row_corr": "Remapped Rows/Correctable Error",
    "remapped_rows/remapped_row_unc": "Remapped Rows/Uncorrectable Error",
    "remapped_rows/remapped_row_pending": "Remapped Rows/Pending",
    "remapped_rows/remapped_row_failure": "Remapped Rows/Remapping Failure Occurred",
    **{
        f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{word.lower()}":
            f"Remapped Rows/Bank Remap Availability Histogram/{word}"
        for word in ("Max", "High", "Partial", "Low", "None")
    },
    "temperature/gpu_temp": "Temperature/GPU Current Temp",
    "temperature/gpu_temp_tlimit": "Temperature/GPU T.Limit Temp",
    "temperature/gpu_temp_slow_tlimit_threshold": "Temperature/GPU Slowdown T.Limit Temp",
    "temperature/memory_temp": "Temperature/Memory Current Temp",
    "clocks/sm_clock": "Clocks/SM",
    "fabric/state": "Fabric/State",
    "fabric/status": "Fabric/Status",
    "fabric/health/summary": "Fabric/Health/Summary",
}  # fmt: skip
"""Path in the XML -> path in the text."""


def from_xml(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    root = ElementTree.fromstring(text)  # noqa: S314 - a file that a person chose
    top = {
        name: root.findtext(name, "") for name in ("timestamp", "driver_version", "attached_gpus")
    }
    gpus = [
        {path: value.strip() for path in KEPT if (value := gpu.findtext(path)) is not None}
        for gpu in root.findall("gpu")
    ]
    return top, gpus


def from_text(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    names = {said: path for path, said in KEPT.items()}
    top: dict[str, str] = {}
    gpus: list[dict[str, str]] = []
    for path, value in _lines(text):
        if path.startswith("GPU 0"):
            gpus.append({})
        elif gpus and path in names:
            gpus[-1].setdefault(names[path], value)
        elif not gpus:
            top[path.lower().replace(" ", "_")] = value
    wanted = ("timestamp", "driver_version", "attached_gpus")
    return {name: top[name] for name in wanted}, gpus


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Each line's path, by its indentation of four spaces a level, and its value."""
    path: list[str] = []
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition(" : "))
        if name and not name.startswith("="):
            depth = (len(line) - len(line.lstrip())) // 4
            in_gpu = 1 if depth else 0
            path = [*path[: max(0, depth - in_gpu)], name]
            yield "/".join(path), value


def main() -> None:
    text, source = Path(sys.argv[1]).read_text(), sys.argv[2]
    top, gpus = (from_xml if text.lstrip().startswith("<") else from_text)(text)
    for index, gpu in enumerate(gpus):
        gpu["uuid"] = f"GPU-0000000{index}-0000-0000-0000-00000000000{index}"
        gpu["serial"] = f"165000000000{index + 1}"
    sys.stdout.write(json.dumps({"source": source, **top, "gpu": gpus}, indent=1) + "\n")


if __name__ == "__main__":
    main()
