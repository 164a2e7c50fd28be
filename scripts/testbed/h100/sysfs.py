"""A node's sysfs tree, as far as node checks read it: InfiniBand ports, PCIe links and AER counters.

The layout is the kernel's (files under devices/, relative links from class/ and bus/), so a reader
works unchanged with this root in place of /sys. Values are those of an HGX H100 with
ConnectX-7. Sources: the kernel's Documentation/ABI, files sysfs-class-infiniband, sysfs-bus-pci and
sysfs-bus-pci-devices-aer_stats.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.h100.board import GPU_BUSES, HCAS, gpu_address, hca_address


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, relative to its own folder."""

    target: str


Value = str | bytes | Link
"""Content of a file (a text gets its final newline when written), or a link."""

Tree = dict[str, Value]

NVSWITCHES = ("0000:05:00.0", "0000:06:00.0", "0000:07:00.0", "0000:08:00.0")
"""The four switches of an HGX H100, class "other bridge"."""

_SWITCH_PORT = "0000:04:01.0"

MODULES = (
    "nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_peermem", "gdrdrv", "ib_core", "ib_uverbs",
    "ib_umad", "mlx5_core", "mlx5_ib",
)  # fmt: skip
"""Kernel modules of a GPU node, in /sys/module."""

CGROUPS = "fs/cgroup/system.slice"
UNITS = {
    "fabricmanager": "nvidia-fabricmanager.service",
    "persistenced": "nvidia-persistenced.service",
}
"""Services that run on the node -> systemd's unit."""

_PORT_COUNTERS = (
    "VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
    "local_link_integrity_errors", "port_rcv_constraint_errors", "port_rcv_data",
    "port_rcv_errors", "port_rcv_packets", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_constraint_errors", "port_xmit_data",
    "port_xmit_discards", "port_xmit_packets", "port_xmit_wait", "symbol_error",
)  # fmt: skip
_HARDWARE_COUNTERS = (
    "duplicate_request", "implied_nak_seq_err", "lifespan", "local_ack_timeout_err", "np_cnp_sent",
    "out_of_buffer", "out_of_sequence", "packet_seq_err", "req_cqe_error",
    "req_remote_access_errors", "rnr_nak_retry_err", "roce_slow_restart", "rp_cnp_handled",
)  # fmt: skip
_CORRECTABLE = (
    "RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF",
)  # fmt: skip
_UNCORRECTABLE = (
    "Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP",
    "ECRC", "UnsupReq", "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked",
    "TLPBlockedErr", "PoisonTLPBlocked",
)  # fmt: skip


def healthy(node_index: int = 0) -> Tree:
    """Every file of a healthy node: path below the root -> value."""
    tree: Tree = {}
    for index, name in enumerate(HCAS):
        port = _root_port(index)
        tree |= _pci_device(
            port, (), _Pci(vendor=0x8086, device=0x352A, kind=0x060400, numa=index // 4)
        )
        address = gpu_address(index)
        tree |= _pci_device(
            address, (port,), _Pci(vendor=0x10DE, device=0x2330, kind=0x030200, numa=index // 4)
        )
        address = hca_address(index)
        tree |= _pci_device(
            address, (port,), _Pci(vendor=0x15B3, device=0x1021, kind=0x020700, numa=index // 4)
        )
        tree |= _hca(name, node_index * 8 + index)
    switches = _Pci(vendor=0x8086, device=0x352A, kind=0x060400, numa=0)
    tree |= _pci_device(_SWITCH_PORT, (), switches)
    for address in NVSWITCHES:
        switch = _Pci(vendor=0x10DE, device=0x22A3, kind=0x068000, numa=0)
        tree |= _pci_device(address, (_SWITCH_PORT,), switch)
    tree |= {f"module/{name}/initstate": "live" for name in MODULES}
    tree |= {f"{CGROUPS}/{unit}/cgroup.procs": "1187" for unit in UNITS.values()}
    return tree


def write_tree(root: Path, tree: Mapping[str, Value]) -> None:
    """Write every file and link of ``tree`` below ``root``."""
    for folder in {(root / path).parent for path in tree}:
        folder.mkdir(parents=True, exist_ok=True)
    for path, value in tree.items():
        if isinstance(value, Link):
            if not (root / path).is_symlink():
                (root / path).symlink_to(value.target)
        else:
            (root / path).write_bytes(_content(value))


def change(root: Path, path: str, value: str | bytes) -> None:
    """Replace the value of one file atomically."""
    target = root / path
    part = target.with_name(f".{target.name}.new")
    part.write_bytes(_content(value))
    part.rename(target)


def count_up(root: Path, path: str, by: int) -> None:
    """Raise a counter file."""
    change(root, path, str(int((root / path).read_text()) + by))


def remove(root: Path, path: str) -> None:
    """Remove a file, a link, or a folder with all below it."""
    target = root / path
    if target.is_dir() and not target.is_symlink():
        gone = target.with_name(f".{target.name}.gone")
        target.rename(gone)  # a reader sees the whole folder or none
        shutil.rmtree(gone)
    else:
        target.unlink(missing_ok=True)


def restore(root: Path, path: str) -> None:
    """Restore what ``remove`` removed, as on a healthy node."""
    tree = healthy()
    write_tree(root, {at: tree[at] for at in tree if at == path or at.startswith(f"{path}/")})


def gpu_folder(gpu: int) -> str:
    """Folder of a GPU's PCI files, below the root."""
    return _device_folder(gpu_address(gpu), (_root_port(gpu),))


def root_port_folder(gpu: int) -> str:
    """Folder of the PCI files of a GPU's root port, below the root."""
    return _device_folder(_root_port(gpu), ())


def root_port(gpu: int) -> str:
    """PCI address of a GPU's root port."""
    return _root_port(gpu)


def hca_folder(name: str) -> str:
    """Folder of an HCA's InfiniBand files, below the root."""
    index = HCAS.index(name)
    return f"{_device_folder(hca_address(index), (_root_port(index),))}/infiniband/{name}"


def aer_text(total: str, names: Iterable[str], raised: Mapping[str, int]) -> str:
    """An aer_dev_* file: one counter a line, their sum last."""
    counts = {name: raised.get(name, 0) for name in names}
    counts[f"TOTAL_ERR_{total}"] = sum(counts.values())
    return "\n".join(f"{name} {count}" for name, count in counts.items())


def fatal(**raised: int) -> str:
    """Content of ``aer_dev_fatal`` with these counters raised."""
    return aer_text("FATAL", _UNCORRECTABLE, raised)


def nonfatal(**raised: int) -> str:
    """Content of ``aer_dev_nonfatal`` with these counters raised."""
    return aer_text("NONFATAL", _UNCORRECTABLE, raised)


def correctable(**raised: int) -> str:
    """Content of ``aer_dev_correctable`` with these counters raised."""
    return aer_text("COR", _CORRECTABLE, raised)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pci:
    vendor: int
    device: int
    kind: int
    numa: int


def _pci_device(address: str, above: tuple[str, ...], pci: _Pci) -> Tree:
    folder = _device_folder(address, above)
    header = struct.pack("<HHHHI", pci.vendor, pci.device, 0x0406, 0x0010, pci.kind << 8 | 0xA1)
    files: Tree = {
        "vendor": f"0x{pci.vendor:04x}",
        "device": f"0x{pci.device:04x}",
        "class": f"0x{pci.kind:06x}",
        "revision": "0xa1",
        "numa_node": str(pci.numa),
        "enable": "1",
        "current_link_speed": "32.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
        "current_link_width": "16",
        "max_link_width": "16",
        "config": header.ljust(256, b"\0"),
        "aer_dev_correctable": aer_text("COR", _CORRECTABLE, {}),
        "aer_dev_nonfatal": aer_text("NONFATAL", _UNCORRECTABLE, {}),
        "aer_dev_fatal": fatal(),
    }
    tree: Tree = {f"{folder}/{name}": value for name, value in files.items()}
    tree[f"bus/pci/devices/{address}"] = Link(f"../../../{folder}")
    return tree


def _hca(name: str, number: int) -> Tree:
    folder = hca_folder(name)
    guid = f"b83f:d203:00{number >> 8:02x}:{number & 0xFF:02x}00"
    files: dict[str, str] = {
        "node_type": "1: CA",
        "node_guid": guid,
        "sys_image_guid": guid,
        "fw_ver": "28.39.1002",
        "board_id": "MT_0000000838",
        "hca_type": "MT4129",
        "ports/1/state": "4: ACTIVE",
        "ports/1/phys_state": "5: LinkUp",
        "ports/1/rate": "400 Gb/sec (4X NDR)",
        "ports/1/link_layer": "InfiniBand",
        "ports/1/lid": f"0x{number + 1:x}",
        "ports/1/sm_lid": "0x1",
    }
    files |= {f"ports/1/counters/{counter}": "0" for counter in _PORT_COUNTERS}
    files |= {f"ports/1/hw_counters/{counter}": "0" for counter in _HARDWARE_COUNTERS}
    tree: Tree = {f"{folder}/{path}": value for path, value in files.items()}
    tree[f"class/infiniband/{name}"] = Link(f"../../{folder}")
    return tree


def _root_port(gpu: int) -> str:
    return f"0000:{GPU_BUSES[gpu] - 3:02x}:01.0"


def _device_folder(address: str, above: tuple[str, ...]) -> str:
    chain = (*above, address)
    return f"devices/pci{chain[0][:7]}/{'/'.join(chain)}"


def _content(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else f"{value}\n".encode()
