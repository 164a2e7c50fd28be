"""What would have been drained: findings of checks that only report, in one window of time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.faults import fault_of
from holdfast.findings import Finding, Verdict
from holdfast.history.event import CLOSED, OPENED, Event
from holdfast.history.page import lasted, when
from holdfast.policy.node_inputs import draining
from holdfast.text.tables import fitted, table
from holdfast.text.wording import counted
from holdfast.vocabulary import Mode, Severity

_SEVERITIES = {severity.name.lower(): severity for severity in Severity}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A fault on one part of one node that a check in ``mode`` reported and, in mode drain, would have
    drained the node for.

    ``spans``: from when to when it was open, epoch seconds; ``times`` it opened.
    """

    node: str
    check: str
    mode: str
    code: str
    subject: str
    severity: str
    detail: str
    spans: tuple[tuple[float, float], ...]
    times: int

    @property
    def open_s(self) -> float:
        return sum(end - start for start, end in self.spans)


def observed(events: Iterable[Event], since: float, now: float) -> list[Observed]:
    """The faults between ``since`` and ``now`` (epoch seconds), the node with most of them first."""
    found: dict[tuple[str, ...], Observed] = {}
    still: dict[tuple[str, ...], float] = {}
    for event in events:
        key: tuple[str, ...] = (
            event.node,
            event.code,
            event.gpu_uuid or str(event.facts.get("subject")),
        )
        if event.event == OPENED and _would_drain(event):
            still.setdefault(key, event.t)
            entry = found.get(key) or _entry(event)
            found[key] = replace(entry, times=entry.times + (event.t >= since), detail=event.detail)
        elif event.event == CLOSED and key in still:
            found[key] = _with_span(found[key], still.pop(key), event, since)
    for key, start in still.items():
        end = Event(t=now, event=CLOSED)
        found[key] = _with_span(found[key], start, end, since)
    rows = [entry for entry in found.values() if entry.spans]
    by_node: dict[str, int] = {}
    for row in rows:
        by_node[row.node] = by_node.get(row.node, 0) + len(row.spans)
    return sorted(rows, key=lambda row: (-by_node[row.node], row.node, row.spans[0], row.code))


def _would_drain(event: Event) -> bool:
    """Whether mode drain would drain the node for this finding, as the agent decides it."""
    if event.facts.get("mode") not in (Mode.OBSERVE.value, Mode.COMMENT.value) or not event.code:
        return False
    check = str(event.facts.get("check"))
    finding = Finding(
        code=event.code,
        severity=_severity(event),
        subject=str(event.facts.get("subject")),
        detail=event.detail,
        cause=event.facts.get("cause") is not False,
        check=check,
    )
    return draining(Verdict(findings=(finding,)), {check: Mode.DRAIN}) is not None


def _severity(event: Event) -> Severity:
    known = _SEVERITIES.get(str(event.facts.get("severity")))
    return fault_of(event.code).severity if known is None else known


def _entry(event: Event) -> Observed:
    return Observed(
        node=event.node,
        check=str(event.facts.get("check")),
        mode=str(event.facts.get("mode")),
        code=event.code,
        subject=f"GPU {event.gpu}" if event.gpu is not None else str(event.facts.get("subject")),
        severity=_severity(event).name.lower(),
        detail=event.detail,
        spans=(),
        times=0,
    )


def _with_span(entry: Observed, start: float, end: Event, since: float) -> Observed:
    """With one more time at which it was open, if that was in the window."""
    if end.t < since:
        return entry
    return replace(entry, spans=(*entry.spans, (max(start, since), end.t)))


def most_at_once(rows: Iterable[Observed]) -> int:
    """The most nodes that would have been out of service at the same time."""
    changes = sorted(
        (at, step, row.node)
        for row in rows
        for start, end in row.spans
        for at, step in ((start, 1), (end, -1))
    )
    out: dict[str, int] = {}
    most = 0
    for _, step, node in changes:
        out[node] = out.get(node, 0) + step
        most = max(most, sum(count > 0 for count in out.values()))
    return most


def page(rows: Sequence[Observed], since: float, width: int | None = None) -> str:
    """The rows as text."""
    if not rows:
        return f"no check that only reports would have drained a node since {when(since)}"
    head = ("NODE", "CHECK", "MODE", "CODE", "ON", "TIMES", "OPEN FOR", "FIRST", "DETAIL")
    return "\n".join((fitted(_summary(rows, since), width), table([head, *map(_row, rows)], width)))


def _summary(rows: Sequence[Observed], since: float) -> str:
    nodes = len({row.node for row in rows})
    return (
        f"{counted(nodes, 'node')} would have been drained since {when(since)}, at most "
        f"{most_at_once(rows)} at the same time without the budget (node.budget)"
    )


def _row(row: Observed) -> tuple[str, ...]:
    first = when(row.spans[0][0])
    of = (row.node, row.check, row.mode, row.code, row.subject)
    return (*of, str(max(row.times, 1)), lasted(row.open_s), first, row.detail or "-")


def as_json(rows: Iterable[Observed]) -> Iterator[Mapping[str, Any]]:
    """The rows as JSON; times in epoch seconds."""
    for row in rows:
        yield {
            "node": row.node,
            "check": row.check,
            "mode": row.mode,
            "code": row.code,
            "subject": row.subject,
            "severity": row.severity,
            "times": max(row.times, 1),
            "open_s": round(row.open_s, 3),
            "first": row.spans[0][0],
            "last": row.spans[-1][1],
            "detail": row.detail,
        }
