"""Xids in the kernel log: the fastest and most exact report of a GPU's faults.

The fault catalogue (holdfast/faults/) has the meaning of each number. This check decides which
events of this boot still count: an event counts until the action that it requires has happened;
then the agent drops it from its state. The required action is combined from the GPU's Xids, an
Xid 154 and NVML's recovery action (holdfast/policy/recovery_action.py), and the finding names the
strongest of these sources. A consequence never outranks its cause, whether the driver, the
catalogue or a failing NVSwitch shows that it is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.faults import fault_of
from holdfast.findings import Finding
from holdfast.policy.recovery_action import Evidence, RecoveryAction, fuse, of_nvml, of_xid_154
from holdfast.vocabulary import Action, FaultClass, Severity
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import KmsgFacts, NodeFacts, XidEvent

_TOGETHER_S = 30.0
"""An Xid 154 follows its fault within this time; an Xid 74 is as close to its failing NVSwitch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``ignore``: Xid numbers that never count. One pass to open: an event is evidence by itself."""

    ignore: frozenset[int] = frozenset()
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    """One finding for each GPU and Xid number, with the newest text."""
    events = facts.kmsg.xids if facts.kmsg else ()
    by_gpu: dict[str, list[XidEvent]] = {}
    for event in events:
        if event.xid not in limits.ignore:
            by_gpu.setdefault(event.pci, []).append(event)
    for pci, of_gpu in by_gpu.items():
        gpu = facts.gpu_at(pci)
        reported = of_nvml(gpu.recovery_action) if gpu is not None else None
        yield from _of_gpu(of_gpu, reported, facts.kmsg or KmsgFacts())


def _of_gpu(events: list[XidEvent], nvml: Evidence | None, log: KmsgFacts) -> Iterator[Finding]:
    newest = {event.xid: event for event in events}
    # It names no fault of its own, so it only changes the required action of the others.
    last_154 = newest.pop(154, None)
    recovery = of_xid_154(last_154.recovery_value, last_154.recovery) if last_154 else None
    requires_action = recovery is not None and recovery.action is not Action.NONE
    cause = _cause_of(last_154, events) if last_154 and requires_action else None
    findings = {
        xid: _raised(_judged(event, log), is_cause=event is cause) for xid, event in newest.items()
    }
    evidence = [_evidence(xid, found) for xid, found in findings.items()]
    demand = fuse([*evidence, *(item for item in (recovery, nvml) if item is not None)])
    for xid, found in findings.items():
        yield _with_demand(found, f"Xid {xid}", demand)
    if last_154 is not None and requires_action:
        # An Xid 154 reports the action that another Xid requires. Without one it is the fault.
        alone = replace(demand_of(last_154), cause=cause is None)
        yield _with_demand(alone, recovery.source if recovery else "", demand)


def _cause_of(last_154: XidEvent, events: list[XidEvent]) -> XidEvent | None:
    """The event that an Xid 154 belongs to: the newest cause on its GPU shortly before it."""
    near = [
        event
        for event in events
        if event.xid != 154
        and demand_of(event).cause
        and 0 <= last_154.at_s - event.at_s <= _TOGETHER_S
    ]
    newest = {event.xid: event for event in events}
    return newest[near[-1].xid] if near else None


def _raised(found: Finding, *, is_cause: bool) -> Finding:
    """Fatal, if the driver requires an action because of it, whatever the catalogue's severity."""
    return replace(found, severity=Severity.FATAL, cause=True) if is_cause else found


def _judged(event: XidEvent, log: KmsgFacts) -> Finding:
    """The finding of one event, given the other records of the log."""
    found = demand_of(event)
    if event.xid != 74:
        return found
    if any(_fails_with(event, code, at_s) for code, at_s in _switch_faults(log)):
        return replace(found, cause=False)
    others = {
        other.pci
        for other in log.xids
        if other.xid == 74 and abs(other.at_s - event.at_s) <= _TOGETHER_S
    }
    if len(others) > 1:
        hint = f" ({len(others)} GPUs at the same time: suspect the NVSwitch)"
        return replace(found, detail=found.detail + hint)
    return found


def _switch_faults(log: KmsgFacts) -> Iterator[tuple[str, float]]:
    for event in log.events:
        if event.kind == "sxid" and event.fatal is not False:
            yield event.code, event.at_s


def _fails_with(event: XidEvent, code: str, at_s: float) -> bool:
    row = fault_of(code)
    fatal = row.fault_class is FaultClass.SWITCH and row.severity is Severity.FATAL
    return fatal and abs(event.at_s - at_s) <= _TOGETHER_S


def _evidence(xid: int, found: Finding) -> Evidence:
    return Evidence(
        source=f"Xid {xid}", action=found.action, severity=found.severity, cause=found.cause
    )


def _with_demand(found: Finding, own: str, demand: RecoveryAction | None) -> Finding:
    """A fatal fault requires the action that all evidence on the GPU gives, and names its source."""
    if demand is None or found.severity is not Severity.FATAL:
        return found
    if demand.because.source == own:
        return replace(found, action=demand.action)
    source = f"; {demand.because.source} requires {demand.action.value}"
    return replace(found, action=demand.action, detail=found.detail + source)


def demand_of(event: XidEvent) -> Finding:
    """The finding of this event alone, by the fault catalogue."""
    where = f"GPU {event.gpu}" if event.gpu is not None else "GPU"
    found = finding(
        f"XID{event.xid}",
        subject=event.uuid or event.pci,
        detail=f"{where} {event.pci} Xid {event.xid}: {event.text or 'no text'}",
        gpu=event.gpu,
    )
    follows = event.consequence or fault_of(found.code).consequence
    return replace(found, cause=False) if follows else found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    events = [e for e in facts.kmsg.xids if e.xid not in limits.ignore] if facts.kmsg else []
    for (subject, xid), text in {(e.uuid or e.pci, e.xid): e.text for e in events}.items():
        value = f"Xid {xid}: {text or 'no text'}"
        yield Reading(subject=subject, value=value, limit="none", code=f"XID{xid}")
    if facts.kmsg and not events:
        yield Reading(subject="node", value="no Xid since boot", limit="none")


CHECK = Check(
    name="gpu_xid",
    probe="kmsg",
    limits=Limits,
    judge=judge,
    show=show,
)
