"""The demo's summary: a table of stages, the figures compared with the baseline, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from demonstration.baseline import Baseline
from demonstration.ettr import Ettr, ettr
from demonstration.scenario import Scenario
from demonstration.stages import CATALOGUE, Seen, missing, table

WIDTH = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of the demo."""

    slurm: str
    ranks_per_node: int
    scenario: Scenario
    baseline: Baseline | None
    digests: dict[str, str]
    problems: list[str] = field(default_factory=list)

    @property
    def seen(self) -> Iterable[Seen]:
        return self.scenario.seen.values()

    @property
    def all_problems(self) -> list[str]:
        """Why the demo failed; empty when every stage was observed."""
        of_baseline = self.baseline.problems if self.baseline else []
        not_seen = [f"not observed: {title}" for title in missing(self.seen)]
        return [*not_seen, *self.scenario.problems, *of_baseline, *self.problems]

    @property
    def ettr(self) -> Ettr | None:
        try:
            return ettr(self.scenario.job.progress(), self.scenario.job.submitted_s)
        except ValueError:
            return None

    @property
    def baseline_ettr(self) -> Ettr | None:
        if self.baseline is None:
            return None
        try:
            return ettr(self.baseline.job.progress(), self.baseline.job.submitted_s)
        except ValueError:
            return None

    @property
    def next_step_s(self) -> float | None:
        """Fault to the next training step, under Holdfast."""
        fault, step = self.scenario.at("fault"), self.scenario.at("next_step")
        return step - fault if fault is not None and step is not None else None


def stage_lines(outcome: Outcome) -> list[str]:
    lines = [f"{'after fault':>12} {'took':>9}   {'stage':<58}{'source':<22}evidence"]
    for row in table(outcome.seen):
        after = f"{row.after_s:+9.2f} s" if row.after_s is not None else ""
        took = f"{row.took_s:7.2f} s" if row.took_s is not None else ""
        text = f"{after:>12} {took:>9}   {row.title:<58}{row.source:<22}{row.evidence}"
        lines.append(text if len(text) <= WIDTH else text[: WIDTH - 1] + "…")
    return lines


def comparison_lines(outcome: Outcome) -> list[str]:
    holdfast, plain, base = outcome.ettr, outcome.baseline_ettr, outcome.baseline
    rows = [("", "Holdfast", "plain Slurm, best case" if base else "plain Slurm: not run")]
    plain_step = base.next_step_s - base.fault_s if base and base.next_step_s else None
    rows.append(("fault to the next training step", _s(outcome.next_step_s), _s(plain_step)))
    rows.append(("repeated steps", _n(holdfast), _n(plain)))
    rows.append(
        (
            "time lost to the fault",
            _s(holdfast.lost_s if holdfast else None),
            _s(plain.lost_s if plain else None),
        )
    )
    rows.append(
        (
            "wall time of the job",
            _s(holdfast.wall_s if holdfast else None),
            _s(plain.wall_s if plain else None),
        )
    )
    rows.append(("ETTR", _r(holdfast), _r(plain)))
    lines = [f"{name:<34}{first:>12}   {second:>24}" for name, first, second in rows]
    if base:
        lines.append("Without an administrator the job on plain Slurm stays FAILED: its ETTR is 0.")
        lines.append(
            f"{base.victim}, drained by hand meanwhile, still has the manual reason: "
            f"'{base.human_reason}'"
        )
    return lines


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The result with stable keys; times in epoch seconds, durations in seconds."""
    holdfast, plain, base = outcome.ettr, outcome.baseline_ettr, outcome.baseline
    return {
        "ok": not outcome.all_problems,
        "problems": outcome.all_problems,
        "slurm": outcome.slurm,
        "ranks_per_node": outcome.ranks_per_node,
        "victim": outcome.scenario.victim,
        "stages": {key: asdict(outcome.scenario.seen[key]) for key in CATALOGUE if key in outcome.scenario.seen},
        "fault_to_next_step_s": outcome.next_step_s,
        "ettr": {"holdfast": holdfast and {**asdict(holdfast), "ratio": holdfast.ratio},
                 "plain": plain and {**asdict(plain), "ratio": plain.ratio}},
        "baseline": base and {
            "fault_to_failed_s": base.failed_s - base.fault_s,
            "fault_to_next_step_s": base.next_step_s - base.fault_s,
            "human_reason": base.human_reason,
        },
        "weights_sha256": outcome.digests,
    }  # fmt: skip


def write_json(outcome: Outcome, path: Path) -> None:
    path.write_text(json.dumps(as_json(outcome), indent=1) + "\n")


def _s(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _n(value: Ettr | None) -> str:
    return "-" if value is None else str(value.redone_steps)


def _r(value: Ettr | None) -> str:
    return "-" if value is None else f"{value.ratio:.2f}"
