"""What a hardware fault changes, as a value, and what heals it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from testbed.h100.kmsg import KERNEL_WARNING

State = Mapping[str, str]
"""The healthy node's NVML state: what UUIDs and serial numbers it has."""


class Remedy(Enum):
    """What a technician does about it."""

    NOTHING = "goes away by itself"
    RESET = "the GPU is reset"
    POWER_CYCLE = "the node is switched off, mended and switched on"
    REPLACE = "the node is switched off, gets another GPU and is switched on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """``nvml`` and ``sysfs`` hold until healed; a path of sysfs whose value is None is gone, with all below it.
    ``wear`` and ``sysfs_wear`` raise counters that stay raised.

    ``event``: (GPU, type, data) for NVML's event sets. ``gpu``: the one that a reset or replacement is about.
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
        """There is something to heal."""
        return bool(self.nvml or self.sysfs) or self.remedy is not Remedy.NOTHING
