"""Which kernel events have to be judged at once. Pure.

A storm (Xid 45 by the thousand when a big job ends, corrected PCIe errors by the second) is one piece of
news, not thousands: what is known already waits for the next pass, so that the agent's time is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.vocabulary import Action, Severity
from slurm_hooks.facts import KernelEvent, XidEvent

REPEAT_S = 10.0
"""A record that repeats one of the same code and part within this time tells nothing new."""

FATAL_REPEAT_S = 1.0
"""The same of a fatal Xid: it is told again, but not a hundred times a second."""

Event = XidEvent | KernelEvent
Demand = Callable[[Event], tuple[Severity, Action]]


def new_events(known: Iterable[Event], heard: Iterable[Event], demand: Demand) -> list[Event]:
    """Of ``heard``, what is not just more of ``known`` or of itself.

    An Xid is news unless it repeats one within REPEAT_S (within FATAL_REPEAT_S where it may condemn); a
    154, which may take a demand back, always is. Another event is news when it is
    the first of its code and part, when it ends one, or when it is fatal and REPEAT_S after the last.
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
    """An Xid's GPU by its address: the UUID may be joined to one record and not yet to another."""
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
        condemns = demand(event)[0] is not Severity.INFO
        return event.xid == 154 or not again or (condemns and not at_once)
    if before is None:
        return True
    return not again and demand(event)[0] is Severity.FATAL
