"""SXids in the kernel log: errors that the NVSwitches of the node report.

The fault catalogue (holdfast/faults/sxids.py) has the meaning of each number; a severity in the
record ("Fatal", "Non-fatal") outranks it. An error of one link at the time when a GPU fails is a
consequence: then the GPU's Xid is the cause. An error of the whole switch is a cause, and the Xids
74 of that time are its consequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.faults import fault_of
from holdfast.findings import Finding
from holdfast.text.wording import counted
from holdfast.vocabulary import FaultClass, Severity
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.kernel_log import event_finding
from slurm_hooks.facts import KernelEvent, NodeFacts

_TOGETHER_S = 30.0
"""The switch and the GPU driver report the same failure within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``ignore``: SXid numbers that never count. One pass to open: an event is evidence by itself."""

    ignore: frozenset[int] = frozenset()
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    """One finding for each switch and number."""
    for event in _events(facts, limits):
        found = event_finding(event)
        row = fault_of(event.code)
        if row.fault_class is FaultClass.LINK and _gpu_failed(event, facts):
            found = replace(found, cause=False)
        yield replace(found, detail=f"NVSwitch {event.subject} SXid {_number(event)}: {event.text}")


def _events(facts: NodeFacts, limits: Limits) -> Iterator[KernelEvent]:
    for event in facts.kmsg.events if facts.kmsg else ():
        if event.kind == "sxid" and _number(event) not in limits.ignore:
            yield event


def _number(event: KernelEvent) -> int:
    return int(event.code.removeprefix("SXID"))


def _gpu_failed(event: KernelEvent, facts: NodeFacts) -> bool:
    """Whether a GPU of the node failed at this time, and its links to the switch with it."""
    for xid in facts.kmsg.xids if facts.kmsg else ():
        row = fault_of(xid.code)
        failed = row.severity is Severity.FATAL and row.fault_class is not FaultClass.LINK
        if failed and xid.xid != 154 and abs(xid.at_s - event.at_s) <= _TOGETHER_S:
            return True
    return False


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    events = list(_events(facts, limits))
    for event in events:
        value = f"SXid {_number(event)}, {counted(event.count, 'time')}"
        yield Reading(subject=event.subject, value=value, limit="none")
    if facts.kmsg is not None and not events:
        yield Reading(subject="node", value="no SXid since boot", limit="none")


CHECK = Check(
    name="nvswitch_sxid",
    probe="kmsg",
    limits=Limits,
    judge=judge,
    show=show,
)
