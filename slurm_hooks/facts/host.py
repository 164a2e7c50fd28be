"""The machine around the GPUs, its processes and its services."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DRIVER_MODULE = re.compile(r"\[nvidia(?:_uvm|_modeset|_drm|_peermem)?\]")
_DRIVER_SYMBOL = re.compile(r"(?:nvidia_|nv_|_nv[0-9]|rm_|uvm_|os_acquire_)")
"""How functions of the NVIDIA driver are called where the kernel names no module (wchan)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFacts:
    """This node's clock minus slurmctld's; the true value lies within ``error_s`` of ``skew_s``."""

    skew_s: float
    error_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """One local filesystem. ``turned_read_only``: it took writes earlier in this boot."""

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

    ``load``          run queue means of 1, 5 and 15 minutes.
    ``clock_synced``  whether the kernel's clock is being disciplined (adjtimex); None: it would not
                      say. ``clock_error_s``: its own bound of the error.
    ``mounted``       kernel's names of the block devices whose filesystems are mounted here, where jobs run
                      ("dm-4"); None: nobody could look.
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
    """A task in uninterruptible sleep. ``stack``: the kernel functions that it is in, innermost
    first, where root may read them; ``blocked_s``: for how long it has not run once, as far as the
    agent saw; None: first seen.
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
        """It sleeps in the NVIDIA driver, by the kernel's word."""
        if any(_DRIVER_MODULE.search(frame) for frame in self.stack):
            return True
        return any(_DRIVER_SYMBOL.match(frame) for frame in (self.wchan, *self.stack))

    @property
    def where(self) -> str:
        frames = [frame.partition("+")[0] for frame in self.stack[:3]]
        return " < ".join(frames) or self.wchan or "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """One service of the machine. ``running`` None: it cannot be seen from here whether it runs.

    ``ran``: it was seen to run earlier in this boot. ``how``: what was looked at.
    """

    name: str
    running: bool | None
    how: str = ""
    ran: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    """What changes slowly: kernel modules, services, and processes in a bad state.

    ``modules``   loaded ones; None: the kernel does not tell.
    ``zombies``   dead processes that nobody collects; ``old_zombies`` of these, how many were there
                  at the look before.
    ``seen_tasks``  how many tasks the scan looked at; ``cut`` True where there were more than it
                  may look at.
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
    """slurmd's own view (``scontrol show slurmd``). ``heard_s``: since slurmctld last spoke to it.

    ``answers`` False: nobody answers where slurmd should listen.
    """

    answers: bool
    detail: str = ""
    version: str = ""
    heard_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmIncident:
    """One line of DCGM's health report. ``entity`` as DCGM has it (``GPU``, ``NvSwitch``)."""

    entity: str
    entity_id: str
    system: str
    health: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmFacts:
    """DCGM's background health watches. ``overall``: Healthy, Warning or Failure, in its words."""

    overall: str
    incidents: tuple[DcgmIncident, ...] = ()
