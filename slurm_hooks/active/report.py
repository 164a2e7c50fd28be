"""The report of an inspection: one page as text, and the same as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.text.tables import fitted, table
from holdfast.text.wording import counted
from slurm_hooks.active.result import IN_DETAIL, CheckOutcome, Measurement, Result

SECTIONS = (
    "hardware",
    "kernel modules",
    "PCIe",
    "network",
    "I/O throughput",
    "network throughput",
    "GPU throughput",
    "GPUs",
    "DCGM",
    "storage",
    "host",
)
"""Sections in the order of the report; others come last."""
INCOMPLETE = "incomplete"
"""Verdict of a node, never of a check: some checks passed, the others could not run."""
ERROR_STATUS = 3
_COUNTED = {"GPUs", "DCGM", "storage", "host"}
"""In these sections the text report only counts the healthy readings; the JSON has all values."""
_CELL = 56
_WORST = (CheckOutcome.FAILED, CheckOutcome.ERROR, CheckOutcome.PASSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """One node of the report. ``was``: its state before the test; ``skipped``: why it was not
    tested; ``excluded_by``: the jobs that excluded it, where these were asked for.
    """

    node: str
    was: str
    results: tuple[Result, ...] = ()
    skipped: str = ""
    excluded_by: tuple[int, ...] = ()

    @property
    def verdict(self) -> str:
        """The worst verdict of its checks. If some passed and the others could not run, the test is
        ``incomplete``: no pass and no failure.
        """
        verdicts = {result.verdict for result in self.results}
        if not verdicts:
            return "not tested"
        if CheckOutcome.FAILED in verdicts:
            return str(CheckOutcome.FAILED.value)
        return str(verdicts.pop().value) if len(verdicts) == 1 else INCOMPLETE

    @property
    def summary(self) -> str:
        """The verdict for people; for an incomplete test also how many checks passed."""
        if self.verdict != INCOMPLETE:
            return self.verdict
        passed = sum(result.verdict is CheckOutcome.PASSED for result in self.results)
        return f"{INCOMPLETE}: passed {passed} of {len(self.results)}"


def exit_status(nodes: Iterable[Inspected]) -> int:
    """0: all checks ran and passed. 1: a check failed, or no node could be tested. 3: no check
    failed, but some could not run.
    """
    verdicts = {node.verdict for node in nodes if node.results}
    if not verdicts or CheckOutcome.FAILED.value in verdicts:
        return 1
    return 0 if verdicts == {CheckOutcome.PASSED.value} else ERROR_STATUS


def as_json(nodes: Sequence[Inspected], *, began: float, ended: float) -> dict[str, Any]:
    """Times in epoch seconds."""
    return {
        "began": round(began, 3),
        "ended": round(ended, 3),
        "nodes": [
            {
                "node": node.node,
                "initial_state": node.was,
                "verdict": node.verdict,
                "skipped": node.skipped,
                "excluded_by": list(node.excluded_by),
                "checks": [result.plain() for result in node.results],
            }
            for node in nodes
        ],
    }


def as_text(
    nodes: Sequence[Inspected], *, began: datetime, took_s: float, width: int | None = None
) -> str:
    """The text report: a summary, everything that did not pass, then the values of each node.
    ``width`` as in ``holdfast.text.tables``.
    """
    tested = [node for node in nodes if node.results]
    head = (
        f"Holdfast inspection of {began.strftime('%Y-%m-%d %H:%M:%S %Z').strip()}: "
        f"{counted(len(tested), 'node')} tested, {len(nodes) - len(tested)} not, in {took_s:.0f} s"
    )
    summary = table([("NODE", "VERDICT", "WAS", "CHECKS"), *map(_summary, nodes)], width)
    parts = [fitted(head, width), summary]
    not_passed = list(_not_passed(nodes))
    if not_passed:
        reasons = table([("NODE", "CHECK", "VERDICT", "WHY"), *not_passed], width)
        parts.append(f"Not passed:\n{reasons}")
    parts += [f"{node.node}\n{_values(node, width)}" for node in tested]
    return "\n\n".join(parts)


def _summary(node: Inspected) -> tuple[str, ...]:
    if node.skipped:
        return (node.node, node.verdict, node.was, node.skipped)
    parts = []
    for verdict in reversed(_WORST):
        names = [result.check for result in node.results if result.verdict is verdict]
        if names:
            parts.append(f"{verdict.value}: {', '.join(names)}")
    return (node.node, node.summary, node.was, "; ".join(parts))


def _not_passed(nodes: Iterable[Inspected]) -> Iterator[tuple[str, str, str, str]]:
    """At least one row for each check that did not pass."""
    for verdict in _WORST[:2]:
        for node in nodes:
            for result in node.results:
                if result.verdict is verdict:
                    for why in _reasons(result):
                        yield (node.node, result.check, verdict.value, why)


def _reasons(result: Result) -> list[str]:
    """The detail of the result, and every failed reading that the detail does not have."""
    failed = [reading for reading in result.readings if reading.ok is False]
    return [result.detail, *(reading.as_text() for reading in failed[IN_DETAIL:])]


def _values(node: Inspected, width: int | None) -> str:
    rows: dict[str, list[Measurement]] = {}
    for result in node.results:
        for reading in result.readings:
            rows.setdefault(reading.section, []).append(reading)
    known = [section for section in SECTIONS if section in rows]
    lines = [
        (section if index == 0 else "", *row)
        for section in known + [section for section in rows if section not in SECTIONS]
        for index, row in enumerate(_rows(section, rows[section]))
    ]
    head = ("SECTION", "WHAT", "VALUE", "LIMIT", "RESULT")
    return table([head, *lines], width, indent=2) if lines else "  no values"


def _rows(section: str, readings: Sequence[Measurement]) -> Iterator[tuple[str, ...]]:
    """Failed readings first, one row each. Equal other readings share a row, or are only counted."""
    rest = [reading for reading in readings if reading.ok is not False]
    for reading in readings:
        if reading.ok is False:
            yield (_cell(reading.subject), _cell(reading.value), _cell(reading.limit), "FAILED")
    if section in _COUNTED:
        healthy = sum(reading.ok is True for reading in rest)
        if healthy:
            yield (counted(healthy, "reading"), "-", "-", "OK")
        rest = [reading for reading in rest if reading.ok is None]
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for reading in rest:
        word = "OK" if reading.ok else "not judged"
        key = (reading.subject.split(" ")[0], reading.value, reading.limit, word)
        groups.setdefault(key, []).append(reading)
    for (_, value, limit, word), group in groups.items():
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        yield (_cell(group[0].subject) + more, _cell(value), _cell(limit), word)


def _cell(text: str) -> str:
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"
