"""The smallest active check that can detect a fault, by its code, else by its class. Pure.

Alternatives are in order: the first one whose program is installed decides. A fault that passive
checks see completely (a GPU missing on the bus, a port that is down) needs only ``host``. Faults of
memory, links, power and compute appear only under load.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.faults import fault_of
from holdfast.vocabulary import FaultClass

_HOST = ("host",)
_MEMORY = ("dcgm_diag_r2", "gpu_burn")
_LINKS = ("nccl_loopback",)
_POWER = ("gpu_burn", "dcgm_diag_r3")
_PCIE = ("gpu_bandwidth", "dcgm_diag_r2")
_DRIVER = ("gpu_bandwidth", "dcgm_diag_r1")

BY_CLASS: Mapping[FaultClass, tuple[str, ...]] = {
    FaultClass.GPU: _MEMORY,
    FaultClass.LINK: _LINKS,
    FaultClass.SWITCH: _LINKS,
    FaultClass.DRIVER: _DRIVER,
    # One node cannot test the network; the pairwise all-reduce of `holdfast inspect` does.
    FaultClass.NETWORK: _HOST,
    FaultClass.STORAGE: ("storage",),
    FaultClass.HOST: _HOST,
    FaultClass.HOLDFAST: _HOST,
    FaultClass.APPLICATION: _HOST,
}
"""Every class has a row, so every new fault has a check."""

BY_CODE: Mapping[str, tuple[str, ...]] = {
    # missing or refused: visible without load
    "GPU_LOST": _HOST,
    "GPU_COUNT": _HOST,
    "GPU_UNREADABLE": _HOST,
    "GPU_PROHIBITED": _HOST,
    "INFOROM_CORRUPT": ("dcgm_diag_r1",),
    "NVML_UNAVAILABLE": _HOST,
    "XID79": _HOST,
    # heat and power: only under load
    "GPU_THERMAL": _POWER,
    "GPU_POWER_BRAKE": _POWER,
    "XID54": _POWER,
    # compute went wrong or stopped
    "XID46": _POWER,
    "XID109": _POWER,
    "XID143": _DRIVER,
    "XID158": _POWER,
    "XID167": _PCIE,
}


def checks_for(code: str) -> tuple[str, ...]:
    """Names of active checks, the smallest first. Never empty, even for an unknown code."""
    return BY_CODE.get(code) or BY_CLASS[fault_of(code).fault_class]
