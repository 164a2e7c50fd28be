"""Layout of the simulated board: addresses of a real HGX H100, made-up identities."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

GPU_BUSES = (0x53, 0x64, 0x75, 0x86, 0x97, 0xA8, 0xB9, 0xCA)
"""PCI bus of each GPU, as in nvmlsim.c."""

HCAS = tuple(f"mlx5_{index}" for index in range(8))
"""One InfiniBand card beside each GPU, on the next bus."""

LINKS = 18
"""NVLinks of one H100."""

_IDENTITIES = uuid.UUID("6f1d9a52-5e0c-4c27-9d6b-0f6c3a2b7e11")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """UUID and serial number of a GPU, unique over all nodes of all boxes."""

    uuid: str
    serial: str


def identity(node_index: int, gpu: int) -> Identity:
    """Identity of an original GPU of a node. Serial numbers leave room for 99 replacements each."""
    return _identity(1_650_000_000_000 + (node_index * 8 + gpu) * 100)


def successor(serial: str) -> Identity:
    """Identity of the GPU that replaces the one with this serial number."""
    return _identity(int(serial) + 1)


def _identity(serial: int) -> Identity:
    return Identity(uuid=f"GPU-{uuid.uuid5(_IDENTITIES, str(serial))}", serial=str(serial))


def gpu_address(gpu: int) -> str:
    """PCI address as sysfs has it, ``0000:53:00.0``."""
    return f"0000:{GPU_BUSES[gpu]:02x}:00.0"


def hca_address(index: int) -> str:
    """PCI address of the InfiniBand card beside GPU ``index``."""
    return f"0000:{GPU_BUSES[index] + 1:02x}:00.0"
