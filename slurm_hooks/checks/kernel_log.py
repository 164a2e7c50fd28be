"""Shared code of the checks that read the kernel log: events → findings, with a limit per code.

This module is no check. The fault catalogue has the severity of each code; a severity in the
record itself ("Fatal", "Non-fatal") outranks it, in either direction. Some records users can make
the kernel write about a device of their own: these are warnings until another probe knows the
device (decision 023).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from holdfast.faults import fault_of
from holdfast.findings import Finding
from holdfast.vocabulary import Action, FaultClass, Severity
from slurm_hooks.checks import Reading
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import KernelEvent, NodeFacts
from slurm_hooks.facts.kernel import SLOT_S

HOUR_S = 3600.0
DAY_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Most:
    """How many records of one part within ``window_s`` seconds are allowed."""

    count: int = 0
    window_s: float = DAY_S


UNCONFIRMED: Mapping[str, str] = {"FS_SHUTDOWN": "FS_SHUTDOWN_UNCONFIRMED"}
"""Code of a record → its code while no other probe knows the device that it names."""

Rules = Mapping[str, Most]
"""Fault code → limit."""


def judge_events(
    facts: NodeFacts, rules: Rules, ignore: frozenset[str] = frozenset()
) -> Iterator[tuple[KernelEvent, Finding]]:
    """The events above their limits. ``ignore``: shell patterns of subjects that never count."""
    for event in _counted(facts, rules, ignore):
        row = fault_of(event.code)
        limit, seen = rules[event.code], _seen(event, facts, rules)
        if row.severity is Severity.FATAL or seen > limit.count:
            found = event_finding(event, seen if limit.count else 0)
            fades = found.severity is not Severity.FATAL
            yield event, replace(found, left_s=_left_s(event, facts, limit) if fades else None)


def event_finding(event: KernelEvent, seen: int = 0) -> Finding:
    """The finding of one event, by the fault catalogue and the severity in the record."""
    often = f" ({seen} recently)" if seen > 1 else ""
    known = event.subject in event.text or event.subject == "node"
    text = event.text if known else f"{event.subject}: {event.text}"
    code = UNCONFIRMED[event.code] if event.confirmed is False else event.code
    found = finding(code, subject=event.subject, detail=f"{text}{often}")
    if event.confirmed is False:
        return found
    row = fault_of(code)
    if event.fatal is False and row.severity is Severity.FATAL:
        return replace(found, severity=Severity.WARN, action=Action.NONE)
    if event.fatal is True and row.severity is not Severity.FATAL:
        gpus = row.fault_class in (FaultClass.LINK, FaultClass.SWITCH, FaultClass.GPU)
        action = Action.RESET_GPU if gpus else Action.REBOOT
        return replace(found, severity=Severity.FATAL, action=action)
    return replace(found, cause=False) if row.consequence else found


def show_events(
    facts: NodeFacts, rules: Rules, ignore: frozenset[str] = frozenset()
) -> Iterator[Reading]:
    """A reading for each event, or one reading if there is none."""
    events = list(_counted(facts, rules, ignore))
    for event in events:
        limit, seen = rules[event.code], _seen(event, facts, rules)
        hours = limit.window_s / HOUR_S
        yield Reading(
            subject=event.subject,
            value=f"{event.code} {seen} in {hours:g} h ({event.count} since boot)",
            limit=f"<= {limit.count} in {hours:g} h",
        )
    if facts.kmsg is not None and not events:
        yield Reading(subject="node", value="no records in the kernel log", limit="none")


def _seen(event: KernelEvent, facts: NodeFacts, rules: Rules) -> int:
    now_s = facts.kmsg.now_s if facts.kmsg else 0.0
    return event.within(rules[event.code].window_s, max(now_s, event.at_s))


def _left_s(event: KernelEvent, facts: NodeFacts, limit: Most) -> float | None:
    """Seconds until enough records have left the window, slot by slot, for the rest to be allowed."""
    now_s = max(facts.kmsg.now_s if facts.kmsg else 0.0, event.at_s)
    still = 0
    for slot, count in sorted(event.slots, reverse=True):
        still += count
        if still > limit.count:
            return (slot + 1) * SLOT_S + limit.window_s - now_s
    return None


def _counted(facts: NodeFacts, rules: Rules, ignore: frozenset[str]) -> Iterator[KernelEvent]:
    for event in facts.kmsg.events if facts.kmsg else ():
        ignored = any(fnmatchcase(event.subject, pattern) for pattern in ignore)
        if event.code in rules and not ignored:
            yield event


def counts_in_range(limits: object, *names: str) -> None:
    """For ``__post_init__``: raises ValueError for counts outside 0 to 1000000."""
    for name in names:
        value = getattr(limits, name)
        if not 0 <= value <= 1_000_000:
            raise ValueError(f"{name} must be between 0 and 1000000, got {value}")
