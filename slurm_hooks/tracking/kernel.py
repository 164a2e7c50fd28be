"""The tracked kernel events other than Xids. Pure: no I/O here.

One event for each code and device, with a count and the counts of one day in slots for its rate: a
flood of records needs no more memory than a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from holdfast.vocabulary import Action, Severity
from slurm_hooks.facts import HostFacts, KernelEvent
from slurm_hooks.facts.kernel import SLOT_S, SLOTS

MAX_EVENTS = 200

FORGET_S = {Severity.INFO: 3600.0, Severity.WARN: 24 * 3600.0}
"""How long after its last record an event that is not fatal counts."""

_PASSING = {Action.NONE, Action.RESTART_JOB, Action.WAIT}
"""Fatal events that require none of the other actions expire like warnings."""

_ANY_SXID = "SXID"
"""The code of a record that clears every SXid of its switch."""

SURVIVES_REBOOT = {Action.REPLACE, Action.CONTACT_SUPPORT}

Demand = Callable[[KernelEvent], tuple[Severity, Action]]
"""Severity and required action of an event, from the fault catalogue."""

Events = tuple[KernelEvent, ...]


def with_events(events: Events, news: Iterable[KernelEvent], demand: Demand) -> Events:
    """The events with ``news`` merged in, and without those that ``news`` report as cleared."""
    known = {(event.code, event.subject): event for event in events}
    for event in news:
        if event.over:
            known = {key: old for key, old in known.items() if not _ended(old, event)}
            continue
        key = (event.code, event.subject)
        folded = _folded(known.pop(key, None), event)
        if folded is not None:
            known[key] = folded  # the newest last
        if len(known) > 2 * MAX_EVENTS:
            known = _at_most(known, demand)
    return tuple(_at_most(known, demand).values())


def _ended(old: KernelEvent, end: KernelEvent) -> bool:
    same = old.code == end.code or (end.code == _ANY_SXID and old.kind == "sxid")
    return same and old.subject == end.subject


def _folded(old: KernelEvent | None, new: KernelEvent) -> KernelEvent | None:
    """``new`` with the counts of ``old`` added. A record without a count only updates the text of
    ``old``."""
    if old is None:
        return replace(new, slots=_counted((), new)) if new.count else None
    if not new.count:
        return replace(old, text=new.text)
    fatal = True if True in (old.fatal, new.fatal) else new.fatal
    confirmed = old.confirmed or new.confirmed
    count = old.count + new.count
    return replace(
        new, count=count, slots=_counted(old.slots, new), fatal=fatal, confirmed=confirmed
    )


def _counted(slots: tuple[tuple[int, int], ...], new: KernelEvent) -> tuple[tuple[int, int], ...]:
    now = int(new.at_s // SLOT_S)
    kept = [slot for slot in slots if now - SLOTS < slot[0] <= now]
    if kept and kept[-1][0] == now:
        return (*kept[:-1], (now, kept[-1][1] + new.count))
    return (*kept, (now, new.count))


def _at_most(
    known: Mapping[tuple[str, str], KernelEvent], demand: Demand
) -> dict[tuple[str, str], KernelEvent]:
    """Drop the least important events, oldest first. Events that require an action are dropped
    last, because users can cause any number of the others.
    """
    excess = len(known) - MAX_EVENTS
    if excess <= 0:
        return dict(known)

    def importance(key: tuple[str, str]) -> tuple[Severity, bool, float]:
        severity, action = demand(known[key])
        return severity, action not in _PASSING, known[key].at_s

    order = sorted(known, key=importance)
    dropped = set(order[:excess])
    return {key: event for key, event in known.items() if key not in dropped}


def confirmed(events: Events, host: HostFacts | None) -> Events:
    """The events with those confirmed whose device is mounted here (decision 023). A confirmed
    event stays confirmed, because a filesystem whose device is lost may be unmounted later.
    """
    mounted = host.mounted if host is not None else None
    if not mounted or all(event.confirmed is not False for event in events):
        return events
    return tuple(
        replace(event, confirmed=True)
        if event.confirmed is False and event.subject in mounted
        else event
        for event in events
    )


def aged(events: Events, now_s: float, demand: Demand) -> Events:
    """The events without expired ones. Fatal events stay until the required action was taken.
    ``now_s``: seconds since boot."""
    return tuple(event for event in events if not _expired(event, now_s, demand))


def _expired(event: KernelEvent, now_s: float, demand: Demand) -> bool:
    severity, action = demand(event)
    if severity is Severity.FATAL and action in _PASSING:
        severity = Severity.WARN
    return now_s - event.at_s > FORGET_S.get(severity, float("inf"))


def rebooted(events: Events, demand: Demand) -> Events:
    """The events that a reboot does not clear. Times begin again with each boot."""
    kept = (e for e in events if lasting(demand(e), SURVIVES_REBOOT))
    return tuple(replace(event, seq=-1, at_s=0.0, slots=()) for event in kept)


def all_gpus_reset(events: Events, demand: Demand) -> Events:
    """The events after every GPU was reset, which also resets the switches' links: without the
    SXids that required a reset."""
    return tuple(
        event
        for event in events
        if event.kind != "sxid" or demand(event)[1] is not Action.RESET_GPU
    )


def lasting(demand: tuple[Severity, Action], actions: set[Action]) -> bool:
    """Whether an event is fatal and requires one of these actions."""
    severity, action = demand
    return severity is Severity.FATAL and action in actions
