"""PCIe links of NVIDIA GPUs from sysfs (Documentation/ABI/testing/sysfs-bus-pci)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_hooks.facts import PcieFacts, pci_address

_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0302", "0x0300")
"""3D controller and VGA: GPUs, not the NVSwitches and bridges of the same vendor."""


def open_probe(sysfs: Path) -> Callable[[object], Iterator[tuple[PcieFacts, ...] | None]]:
    """Answers with ``read``."""

    def serve(_request: object) -> Iterator[tuple[PcieFacts, ...] | None]:
        yield read(sysfs)

    return serve


def read(sysfs: Path) -> tuple[PcieFacts, ...] | None:
    """The link of every NVIDIA GPU on the bus, or None where there is no PCI bus to look at."""
    top = sysfs / "bus" / "pci" / "devices"
    if not top.is_dir():
        return None
    found = []
    for device in sorted(top.iterdir()):
        if _text(device / "vendor") != _NVIDIA:
            continue
        if not _text(device / "class").startswith(_DISPLAY_CLASSES):
            continue
        found.append(
            PcieFacts(
                pci=pci_address(device.name),
                width=_number(device / "current_link_width"),
                max_width=_number(device / "max_link_width"),
                speed_gts=_speed(device / "current_link_speed"),
                max_speed_gts=_speed(device / "max_link_speed"),
            )
        )
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None


def _speed(path: Path) -> float | None:
    match = re.match(r"\d+(?:\.\d+)?", _text(path))
    return float(match.group()) if match else None
