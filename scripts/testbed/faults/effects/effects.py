"""What a hardware fault changes, as a value, and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from testbed.h100.kmsg import KERNEL_WARNING

State = Mapping[str, str]
"""The healthy node's NVML state, with its UUIDs and serial numbers."""


class Remedy(Enum):
    """How a fault is repaired."""

    NOTHING = "goes away by itself"
    RESET = "the GPU is reset"
    POWER_CYCLE = "the node is powered off, repaired and powered on"
    REPLACE = "the node is powered off, gets another GPU and is powered on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """``nvml`` and ``sysfs`` hold until the fault is healed. A sysfs path with value None is removed.
    ``wear`` and ``sysfs_wear`` raise counters permanently.

    ``event``: (GPU, type, data) for NVML's event sets. ``gpu``: the GPU to reset or replace.
    """

    nvml: Mapping[str, int | str] = field(default_factory=dict)
    wear: Mapping[str, int] = field(default_factory=dict)
    sysfs: Mapping[str, str | bytes | None] = field(default_factory=dict)
    sysfs_wear: Mapping[str, int] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    log_when_healed: tuple[str, ...] = ()
    log_prio: int = KERNEL_WARNING
    event: tuple[int, int, int] | None = None
    remedy: Remedy = Remedy.NOTHING
    gpu: int | None = None

    @property
    def lasting(self) -> bool:
        """Whether the fault has to be healed."""
        return bool(self.nvml or self.sysfs) or self.remedy is not Remedy.NOTHING
