"""The stages of the demo, in order, and the evidence for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CATALOGUE: Mapping[str, str] = {
    "fault": "Xid in the kernel log",
    "verdict": "verdict of the node's agent: bad",
    "drain": "node drained in Slurm",
    "step_end": "the job's step ended",
    "requeue": "job requeued",
    "restart": "job started on healthy nodes",
    "checkpoint": "last good checkpoint chosen",
    "loaded": "checkpoint loaded by every rank",
    "next_step": "first new training step",
    "condition": "Node condition in Kubernetes",
    "taint": "Node taint in Kubernetes",
    "event": "Event in Kubernetes",
    "done": "training done, job COMPLETED",
    "healed": "node repaired and rebooted",
    "undrain": "node returned to service in Slurm",
    "untaint": "taint removed in Kubernetes",
    "weights": "final weights equal bit for bit",
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
    """A row of the table. ``after_s`` counts from the fault; None: no time is known."""

    title: str
    after_s: float | None
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
    for stage in sorted(found.values(), key=lambda stage: stage.at_s):
        after = stage.at_s - fault.at_s if fault else None
        lines.append(
            Line(
                title=CATALOGUE[stage.key],
                after_s=after,
                source=stage.source,
                evidence=stage.evidence,
            )
        )
    return lines + [
        Line(title=title, after_s=None, source="", evidence="NOT OBSERVED")
        for title in missing(found.values())
    ]
