"""The stages of the demo, in order, and the evidence for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CATALOGUE: Mapping[str, str] = {
    "fault": "fault in the kernel log",
    "verdict": "finding, verdict bad",
    "drain": "DRAIN in scontrol show node, with Holdfast's reason",
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
    "undrain": "checked again and returned to service in Slurm",
    "untaint": "taint removed in Kubernetes",
    "weights": "final weights equal those of the uninterrupted run",
}
"""Key -> title. A stage that was not observed fails the demo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One stage that happened. ``at_s``: epoch seconds; ``source``: what was read; ``evidence``: its text."""

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
    """Titles of the stages that were not observed."""
    keys = {stage.key for stage in seen}
    return [title for key, title in CATALOGUE.items() if key not in keys]


def table(seen: Iterable[Seen]) -> list[Line]:
    """The observed stages by time, then those that were not observed."""
    found = {stage.key: stage for stage in seen}
    fault = found.get("fault")
    lines = []
    before: float | None = None
    for stage in sorted(found.values(), key=lambda stage: stage.at_s):
        after = stage.at_s - fault.at_s if fault else None
        took = stage.at_s - before if before is not None else None
        before = stage.at_s
        lines.append(
            Line(
                title=CATALOGUE[stage.key],
                after_s=after,
                took_s=took,
                source=stage.source,
                evidence=stage.evidence,
            )
        )
    return lines + [
        Line(title=title, after_s=None, took_s=None, source="", evidence="NOT OBSERVED")
        for title in missing(found.values())
    ]
