"""The smallest active check that would have caught a fault, by its code, else by its class. Pure.

Alternatives stand in order: the first whose program is there decides. A fault that the agent's own
passive re-check sees whole (a GPU that is not on the bus, a port that is down) needs no more than
``host``; memory, links, power and computing show only under load.
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
    # One node alone cannot load the network: the pairwise all-reduce of `holdfast inspect` does.
    FaultClass.NETWORK: _HOST,
    FaultClass.STORAGE: ("storage",),
    FaultClass.HOST: _HOST,
    FaultClass.HOLDFAST: _HOST,
    FaultClass.APPLICATION: _HOST,
}
"""Every class, so that a new fault has an entry before anybody thinks of it."""

BY_CODE: Mapping[str, tuple[str, ...]] = {
    # gone or refused: seen by looking
    "GPU_LOST": _HOST,
    "GPU_COUNT": _HOST,
    "GPU_UNREADABLE": _HOST,
    "GPU_PROHIBITED": _HOST,
    "INFOROM_CORRUPT": ("dcgm_diag_r1",),
    "NVML_UNAVAILABLE": _HOST,
    "XID79": _HOST,
    # heat and power show under load only
    "GPU_THERMAL": _POWER,
    "GPU_POWER_BRAKE": _POWER,
    "XID54": _POWER,
    # computing went wrong or stopped
    "XID46": _POWER,
    "XID109": _POWER,
    "XID143": _DRIVER,
    "XID158": _POWER,
    "XID167": _PCIE,
}


def checks_for(code: str) -> tuple[str, ...]:
    """Names of active checks, the smallest first. Never empty, whatever the code."""
    return BY_CODE.get(code) or BY_CLASS[fault_of(code).fault_class]
