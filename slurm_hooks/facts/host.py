"""The host: memory, disks, clock, processes and services."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DRIVER_MODULE = re.compile(r"\[nvidia(?:_uvm|_modeset|_drm|_peermem)?\]")
_DRIVER_SYMBOL = re.compile(r"(?:nvidia_|nv_|_nv[0-9]|rm_|uvm_|os_acquire_)")
"""Function names of the NVIDIA driver, for sources without a module name (wchan)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFacts:
    """This node's clock minus slurmctld's; the true value lies within ``error_s`` of ``skew_s``."""

    skew_s: float
    error_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """One local filesystem. ``turned_read_only``: it was writable earlier in this boot."""

    path: str
    free_bytes: int
    total_bytes: int
    free_inodes: int = 0
    inodes: int = 0
    read_only: bool = False
    turned_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Memory, load, disks and the kernel's clock.

    ``load``          load averages of 1, 5 and 15 minutes.
    ``clock_synced``  whether the kernel's clock is synchronised (adjtimex); None: unknown.
                      ``clock_error_s``: the kernel's own bound of the error.
    ``mounted``       kernel names ("dm-4") of the block devices whose filesystems are mounted in this
                      mount namespace, where jobs run; None: unknown.
    """

    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    load: tuple[float, float, float] | None = None
    cpus: int | None = None
    disks: tuple[DiskFacts, ...] = ()
    clock_synced: bool | None = None
    clock_error_s: float | None = None
    mounted: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DStateTask:
    """A task in uninterruptible sleep. ``stack``: its kernel functions, innermost first, where root
    may read them. ``blocked_s``: seconds in which the agent has not seen it run; None: first seen.
    """

    pid: int
    tid: int
    start: int
    name: str
    wchan: str = ""
    stack: tuple[str, ...] = ()
    switches: int | None = None
    blocked_s: float | None = None

    @property
    def in_driver(self) -> bool:
        """Whether it sleeps in the NVIDIA driver, as the kernel reports its stack."""
        if any(_DRIVER_MODULE.search(frame) for frame in self.stack):
            return True
        return any(_DRIVER_SYMBOL.match(frame) for frame in (self.wchan, *self.stack))

    @property
    def where(self) -> str:
        frames = [frame.partition("+")[0] for frame in self.stack[:3]]
        return " < ".join(frames) or self.wchan or "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """One service of the machine. ``running`` None: not visible from here.

    ``ran``: it was running earlier in this boot. ``how``: the source of this fact.
    """

    name: str
    running: bool | None
    how: str = ""
    ran: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    """What changes slowly: kernel modules, services, and processes in a bad state.

    ``modules``   loaded kernel modules; None: unknown.
    ``zombies``   (pid, start time) of zombie processes; ``old_zombies``: how many of them the
                  previous scan saw too.
    ``seen_tasks``  how many tasks the scan read; ``cut``: there were more than it may read.
    """

    modules: frozenset[str] | None = None
    services: tuple[ServiceFacts, ...] = ()
    d_state_tasks: tuple[DStateTask, ...] = ()
    zombies: tuple[tuple[int, int], ...] = ()
    old_zombies: int | None = None
    seen_tasks: int = 0
    cut: bool = False
    uptime_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmdFacts:
    """What slurmd reports (``scontrol show slurmd``). ``heard_s``: seconds since the last message
    from slurmctld. ``answers`` False: no answer from slurmd.
    """

    answers: bool
    detail: str = ""
    version: str = ""
    heard_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmIncident:
    """One line of DCGM's health report. ``entity``: DCGM's name (``GPU``, ``NvSwitch``)."""

    entity: str
    entity_id: str
    system: str
    health: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmFacts:
    """DCGM's background health watches. ``overall``: Healthy, Warning or Failure."""

    overall: str
    incidents: tuple[DcgmIncident, ...] = ()
