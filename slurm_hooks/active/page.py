"""The report of an inspection: one page as text, and the same as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.cli.console import table
from holdfast.wording import counted
from slurm_hooks.active.result import Reading, Result, Verdict

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
"""In the order of the page; others come last."""
INCOMPLETE = "incomplete"
"""A node's verdict, never a check's: some checks passed, the others could not run."""
COULD_NOT_RUN_STATUS = 3
_COUNTED = {"GPUs", "DCGM", "storage", "host"}
"""Of these the page only counts what is in order; the JSON has every value."""
_CELL = 56
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
        """The worst that was said of the node. A check that could not run is no pass, and beside
        checks that passed no fault either: then the node's test is ``incomplete``.
        """
        said = {result.verdict for result in self.results}
        if not said:
            return "not tested"
        if Verdict.FAILED in said:
            return str(Verdict.FAILED.value)
        return str(said.pop().value) if len(said) == 1 else INCOMPLETE

    @property
    def tally(self) -> str:
        """The verdict for people: of an incomplete test also how much of it passed."""
        if self.verdict != INCOMPLETE:
            return self.verdict
        passed = sum(result.verdict is Verdict.PASSED for result in self.results)
        return f"{INCOMPLETE}: passed {passed} of {len(self.results)}"


def exit_status(nodes: Iterable[Inspected]) -> int:
    """0: all that was asked for ran and passed. 1: a check failed, or no node could be tested. 3:
    nothing failed, and some check could not run.
    """
    said = {one.verdict for one in nodes if one.results}
    if not said or Verdict.FAILED.value in said:
        return 1
    return 0 if said == {Verdict.PASSED.value} else COULD_NOT_RUN_STATUS


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
        f"{counted(len(tested), 'node')} tested, {len(nodes) - len(tested)} not, in {took_s:.0f} s"
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
    parts = []
    for verdict in reversed(_WORST):
        names = [result.check for result in one.results if result.verdict is verdict]
        if names:
            parts.append(f"{verdict.value}: {', '.join(names)}")
    return (one.node, one.tally, one.was, "; ".join(parts))


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
    lines = [
        (f"  {section}" if index == 0 else "", *row)
        for section in known + [section for section in rows if section not in SECTIONS]
        for index, row in enumerate(_rows(section, rows[section]))
    ]
    return table([("  SECTION", "WHAT", "VALUE", "LIMIT", ""), *lines]) if lines else "  no values"


def _rows(section: str, readings: Sequence[Reading]) -> Iterator[tuple[str, ...]]:
    """What is not in order first, each by itself; the rest folded, or only counted."""
    rest = [one for one in readings if one.ok is not False]
    for one in readings:
        if one.ok is False:
            yield (_cell(one.subject), _cell(one.value), _cell(one.limit), "FAILED")
    if section in _COUNTED:
        fine = sum(one.ok is True for one in rest)
        if fine:
            yield (counted(fine, "reading"), "in order", "", "ok")
        rest = [one for one in rest if one.ok is None]
    groups: dict[tuple[str, ...], list[Reading]] = {}
    for one in rest:
        word = "ok" if one.ok else ""
        groups.setdefault((one.subject.split(" ")[0], one.value, one.limit, word), []).append(one)
    for (_, value, limit, word), group in groups.items():
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        yield (_cell(group[0].subject) + more, _cell(value), _cell(limit), word)


def _cell(text: str) -> str:
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"
