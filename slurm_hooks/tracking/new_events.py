"""Which kernel events must be judged at once. Pure.

A flood of records (thousands of Xid 45 when a big job ends, corrected PCIe errors every second) is
judged once: repeated events wait for the next pass, which limits the agent's CPU time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.vocabulary import Action, Severity
from slurm_hooks.facts import KernelEvent, XidEvent

REPEAT_S = 10.0
"""A record with the same code and device within this time is a repetition."""

FATAL_REPEAT_S = 1.0
"""The same for a fatal Xid: it is judged again, but not a hundred times a second."""

Event = XidEvent | KernelEvent
Demand = Callable[[Event], tuple[Severity, Action]]


def new_events(known: Iterable[Event], heard: Iterable[Event], demand: Demand) -> list[Event]:
    """The events of ``heard`` that do not merely repeat ``known`` events or each other.

    An Xid is new unless it repeats one within REPEAT_S (FATAL_REPEAT_S if it may be fatal). An Xid
    154 is always new, because it may withdraw a required action. Another event is new if it is the
    first of its code and device, if it clears one, or if it is fatal and comes REPEAT_S after the
    last one.
    """
    last = {(event.code, _part(event)): event.at_s for event in known}
    found = []
    for event in heard:
        key = (event.code, _part(event))
        before = last.get(key)
        if _counts(event):
            last[key] = event.at_s
        if _is_news(event, before, demand):
            found.append(event)
    return found


def _part(event: Event) -> str:
    """An Xid's GPU by its PCI address: not every record has a UUID yet."""
    return event.pci if isinstance(event, XidEvent) else event.subject


def _counts(event: Event) -> bool:
    return isinstance(event, XidEvent) or (bool(event.count) and not event.over)


def _is_news(event: Event, before: float | None, demand: Demand) -> bool:
    if isinstance(event, KernelEvent) and event.over:
        return True
    if not _counts(event):
        return False
    again = before is not None and event.at_s - before <= REPEAT_S
    if isinstance(event, XidEvent):
        at_once = before is not None and 0 <= event.at_s - before <= FATAL_REPEAT_S
        may_be_fatal = demand(event)[0] is not Severity.INFO
        return event.xid == 154 or not again or (may_be_fatal and not at_once)
    if before is None:
        return True
    return not again and demand(event)[0] is Severity.FATAL
