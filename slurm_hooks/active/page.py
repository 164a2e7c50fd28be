"""The report of an inspection: one page as text, and the same as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.console import table
from slurm_hooks.active.result import Reading, Result, Verdict

SECTIONS = (
    "hardware",
    "kernel modules",
    "PCIe",
    "GPUs",
    "DCGM",
    "network",
    "network throughput",
    "storage",
    "I/O throughput",
    "host",
)
"""In the order of the page; others come last."""
_WORST = (Verdict.FAILED, Verdict.COULD_NOT_RUN, Verdict.PASSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """One node of the report. ``was``: how it was found, for people; ``skipped``: why it was not
    tested.
    """

    node: str
    was: str
    results: tuple[Result, ...] = ()
    skipped: str = ""

    @property
    def verdict(self) -> str:
        """The worst that was said of the node; a check that could not run is no pass, and beside
        checks that passed no fault either: then the node passed what could run.
        """
        if not self.results:
            return "not tested"
        said = {result.verdict for result in self.results}
        for verdict in (Verdict.FAILED, Verdict.PASSED):
            if verdict in said:
                return str(verdict.value)
        return str(Verdict.COULD_NOT_RUN.value)


def as_json(nodes: Sequence[Inspected], *, began: float, ended: float) -> dict[str, Any]:
    """Times in epoch seconds."""
    return {
        "began": round(began, 3),
        "ended": round(ended, 3),
        "nodes": [
            {
                "node": one.node,
                "was": one.was,
                "verdict": one.verdict,
                "skipped": one.skipped,
                "checks": [result.plain() for result in one.results],
            }
            for one in nodes
        ],
    }


def as_text(nodes: Sequence[Inspected], *, began: datetime, took_s: float) -> str:
    """The page: a summary, then what is wrong, then each node's values by section."""
    tested = [one for one in nodes if one.results]
    head = (
        f"Holdfast inspection of {began.strftime('%Y-%m-%d %H:%M:%S %Z').strip()}: "
        f"{len(tested)} nodes tested, {len(nodes) - len(tested)} not, in {took_s:.0f} s"
    )
    parts = [head, table([("NODE", "VERDICT", "WAS", "CHECKS"), *map(_summary, nodes)])]
    wrong = list(_wrong(nodes))
    if wrong:
        parts.append("To look at:\n" + table([("NODE", "CHECK", "WHAT"), *wrong]))
    parts += [f"{one.node}\n{_values(one)}" for one in tested]
    return "\n\n".join(parts)


def _summary(one: Inspected) -> tuple[str, ...]:
    if one.skipped:
        return (one.node, one.verdict, one.was, one.skipped)
    counted = []
    for verdict in reversed(_WORST):
        names = [result.check for result in one.results if result.verdict is verdict]
        if names:
            counted.append(f"{verdict.value}: {', '.join(names)}")
    return (one.node, one.verdict, one.was, "; ".join(counted))


def _wrong(nodes: Iterable[Inspected]) -> Iterator[tuple[str, str, str]]:
    for verdict in _WORST[:2]:
        for one in nodes:
            for result in one.results:
                if result.verdict is verdict:
                    yield (one.node, result.check, f"{verdict.value}: {result.detail}")


def _values(one: Inspected) -> str:
    rows: dict[str, list[Reading]] = {}
    for result in one.results:
        for reading in result.readings:
            rows.setdefault(reading.section, []).append(reading)
    known = [section for section in SECTIONS if section in rows]
    order = known + [section for section in rows if section not in SECTIONS]
    lines = [
        (f"  {section}" if first else "  ", *row)
        for section in order
        for first, row in _folded(rows[section])
    ]
    return table(lines) if lines else "  no values"


def _folded(readings: Sequence[Reading]) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Rows that say the same of several subjects take one line, unless something is wrong."""
    groups: dict[tuple[str, ...], list[Reading]] = {}
    for one in readings:
        stem = one.subject.split(" ")[0] if one.ok is not False else one.subject
        key = (
            (stem, one.value, one.limit, _word(one))
            if one.ok is not False
            else (one.subject, one.value)
        )
        groups.setdefault(key, []).append(one)
    for index, group in enumerate(groups.values()):
        first = group[0]
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        yield index == 0, (first.subject + more, first.value, first.limit, _word(first))


def _word(reading: Reading) -> str:
    return {True: "ok", False: "FAILED", None: ""}[reading.ok]
