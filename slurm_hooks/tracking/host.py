"""The tracked state of the machine itself: disks that were writable and services that ran, also
before the boot; blocked tasks and zombies of the last pass. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slurm_hooks.facts import DStateTask, HostFacts, ServiceFacts, SystemFacts

MISSED_CODES = frozenset({"DISK_READ_ONLY", "FABRIC_MANAGER_DOWN", "SERVICE_DOWN"})
"""Findings about what worked before: they end when a person resumes the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asleep:
    """A task in uninterruptible sleep: since when (epoch s), and its context switches by then."""

    since: float
    switches: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeen:
    """``writable``: disks that were not read-only; ``ran``: services that were running; ``asleep``:
    tasks in uninterruptible sleep; ``dead``: zombies; ``looked``: there was an earlier pass in this
    boot."""

    writable: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()
    asleep: Mapping[str, Asleep] = field(default_factory=dict)
    dead: tuple[str, ...] = ()
    looked: bool = False


def rebooted(seen: HostSeen) -> HostSeen:
    """What is kept after a reboot: what worked before it and must work after it."""
    return HostSeen(writable=seen.writable, ran=seen.ran)


def acknowledged(seen: HostSeen, host: HostFacts | None, system: SystemFacts | None) -> HostSeen:
    """After a person resumed the node: what did not work in the last pass is accepted."""
    read_only = {disk.path for disk in host.disks if disk.read_only} if host else set()
    services = system.services if system else ()
    stopped = {service.name for service in services if not service.running}
    return replace(
        seen,
        writable=tuple(path for path in seen.writable if path not in read_only),
        ran=tuple(name for name in seen.ran if name not in stopped),
    )


def look_at_host(known: HostSeen, host: HostFacts) -> tuple[HostSeen, HostFacts]:
    """A disk that was always read-only is meant to be; one that became read-only is faulty."""
    disks = tuple(
        replace(disk, turned_read_only=disk.read_only and disk.path in known.writable)
        for disk in host.disks
    )
    writable = {disk.path for disk in disks if not disk.read_only} | set(known.writable)
    return replace(known, writable=tuple(sorted(writable))), replace(host, disks=disks)


def look_at_system(
    known: HostSeen, system: SystemFacts, now: float
) -> tuple[HostSeen, SystemFacts]:
    """The tracked host after this pass, and the pass with the values that need an earlier one.
    ``now`` in epoch seconds.
    """
    tasks, asleep = _sleepers(known, system, now)
    services = tuple(_service(known, service, cut=system.cut) for service in system.services)
    dead = {f"{pid}/{start}" for pid, start in system.zombies}
    ran = {service.name for service in services if service.running} | set(known.ran)
    seen = replace(
        known,
        ran=tuple(sorted(ran)),
        asleep=asleep,
        dead=tuple(sorted(dead)),
        looked=True,
    )
    filled = replace(
        system,
        services=services,
        d_state_tasks=tasks,
        old_zombies=len(dead & set(known.dead)) if known.looked else None,
    )
    return seen, filled


def _sleepers(
    known: HostSeen, system: SystemFacts, now: float
) -> tuple[tuple[DStateTask, ...], dict[str, Asleep]]:
    """A task that ran in between counts as newly asleep: on busy disks many tasks sleep for a
    moment."""
    tasks, asleep = [], {}
    for task in system.d_state_tasks:
        key = f"{task.pid}/{task.tid}/{task.start}"
        before = known.asleep.get(key)
        same = before is not None and before.switches == task.switches
        since = before.since if before is not None and same else now
        asleep[key] = Asleep(since=since, switches=task.switches)
        tasks.append(replace(task, blocked_s=now - since if same else None))
    return tuple(tasks), asleep


def _service(known: HostSeen, service: ServiceFacts, *, cut: bool) -> ServiceFacts:
    """A service that ran before and is no longer found has stopped, unless the list was cut short."""
    ran = service.name in known.ran
    running, how = service.running, service.how
    if running is None and ran and not cut:
        running, how = False, "it ran before and is no longer found"
    return replace(service, running=running, how=how, ran=ran)
