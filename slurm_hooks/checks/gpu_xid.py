"""Xids in the kernel log: the fastest and most exact word on a GPU's health.

Which number means what is the fault catalogue's business (holdfast/faults.py). Here: which of the
events of this boot still count. An event stays until what it asks for happened (the agent's memory
drops it then); an Xid 154 ("GPU recovery action changed") overrides the actions of the same GPU's
other events; a fault that the driver itself calls the consequence of another one never outranks its
cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from holdfast.vocabulary import Action, Severity
from slurm_hooks.checks import Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts, XidEvent

NEEDS = "kmsg"

RECOVERY_ACTIONS = {
    "none": Action.NONE,
    "gpu reset required": Action.RESET_GPU,
    "drain and reset": Action.RESET_GPU,
    "node reboot required": Action.REBOOT,
    "drain p2p": Action.RESET_GPU,
}
"""Texts of Xid 154 (NVIDIA's Xid catalogue). A text that is not here asks for a reboot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``ignore``: numbers that never count here. Events are evidence by themselves: they open at
    once.
    """

    ignore: frozenset[int] = frozenset()
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    """One finding for each GPU and number, with the newest text."""
    if facts.kmsg is None:
        return
    newest: dict[tuple[str, int], XidEvent] = {}
    demands: dict[str, Action] = {}
    for event in facts.kmsg.xids:
        if event.xid == 154:
            demands[event.pci] = demanded(event)
        if event.xid not in limits.ignore:
            newest[event.pci, event.xid] = event
    for event in newest.values():
        yield from _finding(event, demands.get(event.pci))


def demanded(event: XidEvent) -> Action:
    """What an Xid 154 asks for."""
    if event.recovery is None:
        return Action.REBOOT
    return RECOVERY_ACTIONS.get(event.recovery.strip().lower(), Action.REBOOT)


def _finding(event: XidEvent, demand: Action | None) -> Iterator[Finding]:
    if event.xid == 154 and demand in (None, Action.NONE):
        return  # a recovery that is over
    found = demand_of(event)
    if demand is not None and found.severity is Severity.FATAL:
        found = replace(found, action=_merge(found.action, demand))
    yield found


def demand_of(event: XidEvent) -> Finding:
    """What the fault catalogue says of this event alone."""
    where = f"GPU {event.gpu}" if event.gpu is not None else "GPU"
    found = finding(
        f"XID{event.xid}",
        subject=event.uuid or event.pci,
        detail=f"{where} {event.pci} Xid {event.xid}: {event.text or 'no text'}",
        gpu=event.gpu,
    )
    return replace(found, cause=False) if event.consequence else found


def _merge(static: Action, demand: Action) -> Action:
    """The driver's own word outranks the table's, except that it never waives what a table row
    asks.
    """
    return static if demand is Action.NONE else demand


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    events = [e for e in facts.kmsg.xids if e.xid not in limits.ignore] if facts.kmsg else []
    for event in events:
        yield Reading(subject=event.uuid or event.pci, value=f"Xid {event.xid}", limit="none")
    if facts.kmsg and not events:
        yield Reading(subject="node", value="no Xid since boot", limit="none")
