"""The lemon score: which node or GPU fails repeatedly, although each fault was repaired. Pure.

Meta found that 1.2 % of its nodes affected 13 % of each day's jobs, and that removing these "lemons"
lowered the failures of jobs of 512 GPUs and more from 14 % to 4 % (arXiv 2410.21680, section on lemon
nodes; its window of 28 days and its signals are used here). Its thresholds are not published; the
weights are Holdfast's own::

    S = sum(w_i * min(1, x_i / r_i)) / sum(w_i)     over the signals i that are known

    signal                  w     x in the last 28 days                                        r
    faults                  0.20  hardware faults that opened (Meta: xid_cnt)                  4
    repairs                 0.15  of these, faults that require a person or a new part         2
                                  (Meta: tickets); failed active checks; replaced GPUs
    drains                  0.15  drains by Holdfast for a hardware fault, not withdrawn       3
                                  (Meta: out_count)
    affected_jobs           0.35  runs of jobs that were affected by a fault of this hardware  4
                                  (Meta: multi_node_node_fails and single_node_node_fails)

``r_i`` is the fleet's 95th percentile where the history holds 20 nodes or more (at least 1), else the
value above (chosen by Holdfast). A signal that the history has no information on is unknown, not zero, and
is left out. Meta's failure rate and its count of jobs that exclude the node are left out: a node's agent
knows neither. Faults of one part within 180 s of each other count once (NVSentinel's burst window): a GPU
that falls off the bus shows in the kernel log, in NVML and on the PCI bus.

``lemon``: S >= 0.5, or two drains that were not withdrawn. ``watch``: S >= 0.3. A hardware fault is one of
class gpu, link, switch, driver or host that requires a reset, a reboot, a part or a person: a full disk or
a hung file server makes no node a lemon. Faults of a GPU that is no longer in the node, or of a machine
that had this node's name before, count only for that GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.faults import fault_of
from holdfast.history.event import (
    ACTIVE_CHECK,
    DRAINED,
    GPU_REPLACED,
    JOB_AFFECTED,
    OPENED,
    WITHDRAWN,
    Event,
)
from holdfast.vocabulary import Action, FaultClass

WINDOW_S = 28 * 86400.0
BURST_S = 180.0
MANY = 20
"""Nodes from which on a fleet's own 95th percentile is the reference."""
LEMON_AT, WATCH_AT, LEMON_DRAINS = 0.5, 0.3, 2

WEIGHTS: Mapping[str, float] = {
    "faults": 0.2,
    "repairs": 0.15,
    "drains": 0.15,
    "affected_jobs": 0.35,
}
REFERENCE: Mapping[str, float] = {
    "faults": 4,
    "repairs": 2,
    "drains": 3,
    "affected_jobs": 4,
}
ALWAYS = frozenset({"faults", "repairs", "drains"})
"""Signals that every agent records."""

_HARDWARE = {
    FaultClass.GPU,
    FaultClass.LINK,
    FaultClass.SWITCH,
    FaultClass.DRIVER,
    FaultClass.HOST,
}
_FOR_A_PERSON = {Action.REPLACE, Action.CONTACT_SUPPORT}
_NO_CURE = {Action.NONE, Action.RESTART_JOB, Action.WAIT}


class Rating(str, Enum):
    """The score as one word."""

    GOOD = "good"
    WATCH = "watch"
    LEMON = "lemon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """``value`` from 0 to 1. ``counts`` and ``reference`` by signal, of those that are known."""

    value: float
    counts: Mapping[str, int]
    reference: Mapping[str, float]

    @property
    def rating(self) -> Rating:
        if self.value >= LEMON_AT or self.counts.get("drains", 0) >= LEMON_DRAINS:
            return Rating.LEMON
        return Rating.WATCH if self.value >= WATCH_AT else Rating.GOOD


def score(
    events: Iterable[Event],
    now: float,
    *,
    known: frozenset[str] = ALWAYS,
    reference: Mapping[str, float] = REFERENCE,
) -> Score:
    """The score of one node or GPU from its events; ``now`` in epoch seconds."""
    counts = {name: count for name, count in count_of(events, now).items() if name in known}
    total = sum(WEIGHTS[name] for name in counts)
    value = sum(WEIGHTS[name] * min(1.0, x / reference[name]) for name, x in counts.items())
    return Score(
        value=value / total if total else 0.0,
        counts=counts,
        reference={name: reference[name] for name in counts},
    )


def count_of(events: Iterable[Event], now: float) -> dict[str, int]:
    """Each signal's count in the window."""
    recent = [event for event in events if now - WINDOW_S <= event.t <= now + BURST_S]
    seen = _without_bursts(recent)
    opened = [event for event in recent if event.event == OPENED and is_hardware(event)]
    opened = [event for event in opened if event.facts.get("cause", True)]
    incidents = _incidents(opened)
    wanted = sum(any(_action(e) in _FOR_A_PERSON for e in incident) for incident in incidents)
    replaced = sum(event.event == GPU_REPLACED for event in seen)
    failed = sum(e.event == ACTIVE_CHECK and e.facts.get("verdict") == "failed" for e in seen)
    return {
        "faults": len(incidents),
        "repairs": max(wanted, replaced) + failed,
        "drains": _lasting_drains(seen),
        "affected_jobs": len({_run(event) for event in recent if event.event == JOB_AFFECTED}),
    }


def is_hardware(event: Event) -> bool:
    """Whether the event's fault is evidence against the hardware."""
    if not event.code or fault_of(event.code).fault_class not in _HARDWARE:
        return False
    return _action(event) not in _NO_CURE


def known_signals(events: Iterable[Event]) -> frozenset[str]:
    """The signals that this history has information on."""
    return ALWAYS | (
        {"affected_jobs"} if any(event.event == JOB_AFFECTED for event in events) else set()
    )


def reference_of(fleet: Sequence[Mapping[str, int]]) -> Mapping[str, float]:
    """The reference values of this fleet: ``fleet`` holds the counts of each of its nodes."""
    if len(fleet) < MANY:
        return REFERENCE
    at = math.ceil(0.95 * len(fleet)) - 1
    return {name: max(1, sorted(counts[name] for counts in fleet)[at]) for name in WEIGHTS}


def _action(event: Event) -> Action:
    try:
        return Action(event.facts.get("action"))
    except ValueError:
        return fault_of(event.code).action


def _order(event: Event) -> tuple[object, ...]:
    """In order of time. Of events with equal times, a drain precedes its withdrawal; the order is stable."""
    facts = sorted((name, repr(value)) for name, value in event.facts.items())
    return (event.t, event.event, event.node, event.code, event.gpu_uuid, facts)


def _run(event: Event) -> tuple[str, str]:
    return str(event.facts.get("job")), str(event.facts.get("run"))


def _lasting_drains(events: Iterable[Event]) -> int:
    """Drains for a hardware fault that were not withdrawn."""
    count = 0
    for event in events:
        if event.event == DRAINED and is_hardware(event):
            count += 1
        elif event.event == WITHDRAWN and is_hardware(event):
            count = max(0, count - 1)
    return count


def _incidents(faults: Iterable[Event]) -> list[list[Event]]:
    """Faults of one part within one burst, as one incident."""
    found: list[list[Event]] = []
    newest: dict[str, list[Event]] = {}
    for event in sorted(faults, key=_order):
        part = event.gpu_uuid or f"{event.node} {event.facts.get('subject')}"
        incident = newest.get(part)
        if incident is None or event.t - incident[-1].t > BURST_S:
            incident = newest[part] = []
            found.append(incident)
        incident.append(event)
    return found


def _without_bursts(events: Iterable[Event]) -> list[Event]:
    last: dict[tuple[object, ...], float] = {}
    kept = []
    for event in sorted(events, key=_order):
        key = (event.event, event.node, event.code, event.gpu_uuid, str(event.facts.get("subject")))
        if event.t - last.get(key, -math.inf) > BURST_S:
            kept.append(event)
            last[key] = event.t
    return kept
