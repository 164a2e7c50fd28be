"""Xids in the kernel log: the fastest and most exact word on a GPU's health.

Which number means what is the fault catalogue's business (holdfast/faults/). Here: which of the
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


_TOGETHER_S = 30.0
"""An Xid 154 follows the fault that it is about within this time."""


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
    events = facts.kmsg.xids if facts.kmsg else ()
    counted = [event for event in events if event.xid not in limits.ignore]
    newest = {(event.pci, event.xid): event for event in counted}
    demands = _demands(counted)
    for event in newest.values():
        found = demand_of(event)
        demand, reason_for_it = demands.get(event.pci, (None, None))
        if event.xid == 154:
            if demand is Action.NONE:
                continue  # a recovery that is over
            # It only says what another fault needs; alone it is a fault all the same.
            found = replace(found, cause=reason_for_it is None)
        if demand is not None and demand is not Action.NONE:
            found = _with_demand(found, demand, blamed=event == reason_for_it)
        yield found


def _demands(events: list[XidEvent]) -> dict[str, tuple[Action, XidEvent | None]]:
    """By GPU: what its newest Xid 154 asks for, and the Xid just before that it is about."""
    found: dict[str, tuple[Action, XidEvent | None]] = {}
    last: dict[str, XidEvent] = {}
    for event in events:
        if event.xid != 154:
            last[event.pci] = event
            continue
        before = last.get(event.pci)
        near = before is not None and event.at_s - before.at_s <= _TOGETHER_S
        found[event.pci] = (demanded(event), before if near else None)
    return found


def _with_demand(found: Finding, demand: Action, *, blamed: bool) -> Finding:
    """The driver's own word on what is needed outranks the table's, and makes what it is about
    fatal (an NVLink error or a remapped row may be harmless; with such a demand it is not)."""
    if blamed:
        return replace(found, severity=Severity.FATAL, action=demand)
    return replace(found, action=demand) if found.severity is Severity.FATAL else found


def demanded(event: XidEvent) -> Action:
    """What an Xid 154 asks for."""
    if event.recovery is None:
        return Action.REBOOT
    return RECOVERY_ACTIONS.get(event.recovery.strip().lower(), Action.REBOOT)


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


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    events = [e for e in facts.kmsg.xids if e.xid not in limits.ignore] if facts.kmsg else []
    for event in events:
        yield Reading(subject=event.uuid or event.pci, value=f"Xid {event.xid}", limit="none")
    if facts.kmsg and not events:
        yield Reading(subject="node", value="no Xid since boot", limit="none")
