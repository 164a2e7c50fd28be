"""The stages of the main job, in order, and what was read of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CATALOGUE: Mapping[str, str] = {
    "fault": "fault in the kernel log",
    "verdict": "finding, verdict bad",
    "drain": "DRAIN in scontrol show node, with our reason",
    "step_end": "the job's step ended",
    "requeue": "job requeued",
    "restart": "job started on healthy nodes",
    "checkpoint": "last good checkpoint chosen and checked",
    "loaded": "checkpoint loaded by every rank",
    "next_step": "first new training step",
    "condition": "Node condition in kubectl",
    "taint": "Node taint in kubectl",
    "event": "Event in kubectl",
    "done": "training done, job COMPLETED",
    "healed": "node repaired",
    "undrain": "re-checked and given back in Slurm",
    "untaint": "taint gone in Kubernetes",
    "weights": "final weights equal the uninterrupted run's, bit for bit",
}
"""Key -> what must be seen. A stage that was not seen fails the demo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One stage that happened. ``at_s``: epoch seconds; ``source``: what was read; ``evidence``: what it said."""

    key: str
    at_s: float
    source: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the table. ``after_s`` counts from the fault, ``took_s`` from the latest stage before it."""

    title: str
    after_s: float | None
    took_s: float | None
    source: str
    evidence: str


def missing(seen: Iterable[Seen]) -> list[str]:
    """Titles of the stages that did not happen."""
    keys = {one.key for one in seen}
    return [title for key, title in CATALOGUE.items() if key not in keys]


def table(seen: Iterable[Seen]) -> list[Line]:
    """Every stage that has a moment, by time, then those that were not seen."""
    found = {one.key: one for one in seen}
    fault = found.get("fault")
    lines = []
    before: float | None = None
    for one in sorted(found.values(), key=lambda each: each.at_s):
        after = one.at_s - fault.at_s if fault else None
        took = one.at_s - before if before is not None else None
        before = one.at_s
        lines.append(
            Line(
                title=CATALOGUE[one.key],
                after_s=after,
                took_s=took,
                source=one.source,
                evidence=one.evidence,
            )
        )
    return lines + [
        Line(title=title, after_s=None, took_s=None, source="", evidence="NOT SEEN")
        for title in missing(found.values())
    ]
