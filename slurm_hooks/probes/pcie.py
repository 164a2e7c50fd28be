"""GPUs, NVSwitches and HCAs on the PCI bus: link, configuration space, AER counters, from sysfs.

Sources: Documentation/ABI/testing, files sysfs-bus-pci and sysfs-bus-pci-devices-aer_stats.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import ProbeError
from slurm_hooks.facts import PcieFacts, PciKind, pci_address
from slurm_hooks.node import kernel_files

_KINDS = {
    ("0x10de", "0x0302"): PciKind.GPU,
    ("0x10de", "0x0300"): PciKind.GPU,
    ("0x10de", "0x0680"): PciKind.NVSWITCH,
    ("0x15b3", "0x0207"): PciKind.HCA,
    ("0x15b3", "0x0200"): PciKind.NIC,
}
"""(vendor, class): NVIDIA's 3D controllers, VGA and bridges (an NVSwitch is an "other bridge"), and
Mellanox InfiniBand and Ethernet controllers."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_OFF_THE_BUS = b"\xff\xff\xff\xff"
_ALL_ONES = 63
"""The six bits of the width, read from a device that does not answer: unknown."""
_SPEED = re.compile(r"\d{1,4}(?:\.\d{1,3})?")


@dataclass(slots=True)
class _Bus:
    """The kind of each device, read once: a node has hundreds that are of no interest."""

    kinds: dict[str, PciKind | None] = field(default_factory=dict)


def open_probe(
    sysfs: Path, *, expected: bool = False
) -> Callable[[object], Iterator[tuple[PcieFacts, ...] | None]]:
    """Answers with ``read``. Raises ProbeError if there is no PCI bus but devices are ``expected``."""
    bus = _Bus()

    def serve(_request: object) -> Iterator[tuple[PcieFacts, ...] | None]:
        found = read(sysfs, bus)
        if found is None and expected:
            raise ProbeError(f"no PCI bus in {sysfs}: is sysfs mounted there?")
        yield found

    return serve


def read(sysfs: Path, bus: _Bus | None = None) -> tuple[PcieFacts, ...] | None:
    """Every GPU, NVSwitch, HCA and NIC; None if there is no PCI bus."""
    top = f"{sysfs}/bus/pci/devices"
    known = bus or _Bus()
    if not known.kinds and not Path(top).is_dir():
        return None
    names = [name for name in kernel_files.names(top) if _ADDRESS.fullmatch(name)]
    kinds = {
        name: known.kinds[name] if name in known.kinds else _kind(f"{top}/{name}") for name in names
    }
    known.kinds = kinds
    return tuple(
        _device(name, f"{top}/{name}", kind) for name, kind in kinds.items() if kind is not None
    )


def _kind(folder: str) -> PciKind | None:
    """None for other devices and for virtual functions, which belong to guests."""
    kind = _KINDS.get(
        (kernel_files.text(f"{folder}/vendor"), kernel_files.text(f"{folder}/class")[:6])
    )
    return None if kind is None or Path(f"{folder}/physfn").exists() else kind


def _device(name: str, folder: str, kind: PciKind) -> PcieFacts:
    return PcieFacts(
        pci=pci_address(name) if kind is PciKind.GPU else name,
        kind=kind,
        width=_lanes(f"{folder}/current_link_width"),
        max_width=_lanes(f"{folder}/max_link_width"),
        speed_gts=_speed(f"{folder}/current_link_speed"),
        max_speed_gts=_speed(f"{folder}/max_link_speed"),
        answers=_answers(f"{folder}/config"),
        correctable=_total(f"{folder}/aer_dev_correctable", "TOTAL_ERR_COR"),
        nonfatal=_total(f"{folder}/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
        fatal=_total(f"{folder}/aer_dev_fatal", "TOTAL_ERR_FATAL"),
    )


def _speed(path: str) -> float | None:
    match = _SPEED.match(kernel_files.text(path))
    return float(match.group()) if match else None


def _answers(path: str) -> bool | None:
    """Whether the vendor and device id can be read from the device itself. (The files ``vendor`` and
    ``device`` of sysfs are cached.)
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        head = os.read(fd, 4)
    except OSError:
        return None
    finally:
        os.close(fd)
    return None if len(head) < 4 else head != _OFF_THE_BUS


def _total(path: str, name: str) -> int | None:
    """The total in the file's last line; None if the kernel has no counters for this device."""
    line = kernel_files.text(path).rpartition("\n")[2].split()
    return kernel_files.whole(line[1]) if len(line) == 2 and line[0] == name else None


def _lanes(path: str) -> int | None:
    width = kernel_files.number(path)
    return None if width == _ALL_ONES else width
