"""The demo's summary: a table of stages, the figures compared with the baseline, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from demonstration.baseline import Baseline
from demonstration.ettr import Ettr, ettr
from demonstration.live import shortened
from demonstration.scenario import Scenario
from demonstration.stages import CATALOGUE, Seen, missing, table

SLOWEST = 1.5
"""As pods: how many times as long the next training step may take as without pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of the demo. ``without_pods``: the run beside one whose bridge and agents are pods."""

    slurm: str
    ranks_per_node: int
    scenario: Scenario
    baseline: Baseline | None
    digests: dict[str, str]
    problems: list[str] = field(default_factory=list)
    without_pods: Scenario | None = None

    @property
    def seen(self) -> Iterable[Seen]:
        return self.scenario.seen.values()

    @property
    def all_problems(self) -> list[str]:
        """Why the demo failed; empty when every stage was observed."""
        of_baseline = self.baseline.problems if self.baseline else []
        not_seen = [f"not observed: {title}" for title in missing(self.seen)]
        beside = self.without_pods.problems if self.without_pods else []
        slow = self._too_slow_as_pods
        return [*not_seen, *self.scenario.problems, *of_baseline, *beside, *slow, *self.problems]

    @property
    def _too_slow_as_pods(self) -> list[str]:
        ratio = self.next_step_ratio
        if ratio is None or ratio <= SLOWEST:
            return []
        text = f"as pods the next step took {ratio:.2f} times as long as without"
        return [f"{text}; at most {SLOWEST:.2f}"]

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
        return _after_s(self.scenario, "next_step")

    @property
    def next_step_without_pods_s(self) -> float | None:
        return _after_s(self.without_pods, "next_step") if self.without_pods else None

    @property
    def next_step_ratio(self) -> float | None:
        """Fault to the next training step: as pods, divided by the same without pods."""
        pods_s, without_s = self.next_step_s, self.next_step_without_pods_s
        return pods_s / without_s if pods_s and without_s else None


def _after_s(scenario: Scenario, key: str) -> float | None:
    """Seconds from the fault to a stage."""
    fault, at = scenario.at("fault"), scenario.at(key)
    return at - fault if fault is not None and at is not None else None


def stage_lines(outcome: Outcome) -> list[str]:
    lines = [_stage_line("after fault", "stage", "read from", "evidence")]
    for row in table(outcome.seen):
        after = f"{row.after_s:+.2f} s" if row.after_s is not None else ""
        lines.append(_stage_line(after, row.title, row.source, row.evidence))
    return lines


def _stage_line(after: str, title: str, source: str, evidence: str) -> str:
    return shortened(f"{after:>11}  {title:<35}{source:<20}{evidence}".rstrip())


def comparison_lines(outcome: Outcome) -> list[str]:
    if outcome.without_pods:
        return _beside_pods(outcome, outcome.without_pods)
    holdfast, plain, base = outcome.ettr, outcome.baseline_ettr, outcome.baseline
    plain_step = base.next_step_s - base.fault_s if base and base.next_step_s else None
    rows = [
        ("", "Holdfast", "plain Slurm, best case" if base else "plain Slurm: not run"),
        ("fault to the next training step", _s(outcome.next_step_s), _s(plain_step)),
        ("repeated steps", _n(holdfast), _n(plain)),
        ("time lost to the fault", _lost(holdfast), _lost(plain)),
        ("ETTR of the run, and its length", _ratio(holdfast), _ratio(plain)),
    ]
    lines = [f"{name:<34}{first:>15}   {second:>24}" for name, first, second in rows]
    if holdfast:
        lines.append("The run is short, so one fault lowers its ETTR more than that of a long run.")
    if base:
        lines.append("Without an administrator the job on plain Slurm stays FAILED: its ETTR is 0.")
        lines.append(
            f"{base.victim}, drained by hand meanwhile, still has the manual reason: "
            f"'{base.human_reason}'"
        )
    return lines


def _beside_pods(outcome: Outcome, other: Scenario) -> list[str]:
    """The stages until the next training step, as pods and without pods."""
    lines = [f"{'from the fault to':<34}{'as pods':>15}   {'without pods':>24}"]
    for key in ("drain", "requeue", "restart", "next_step", "taint"):
        first, second = (_exact_s(_after_s(run, key)) for run in (outcome.scenario, other))
        lines.append(f"{CATALOGUE[key]:<34}{first:>15}   {second:>24}")
    if outcome.next_step_ratio:
        lines.append(f"As pods the next step took {outcome.next_step_ratio:.2f} times as long.")
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
        "fault_to_next_step_without_pods_s": outcome.next_step_without_pods_s,
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


def _exact_s(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _s(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _n(value: Ettr | None) -> str:
    return "-" if value is None else str(value.redone_steps)


def _lost(value: Ettr | None) -> str:
    return _s(value.lost_s if value else None)


def _ratio(value: Ettr | None) -> str:
    return "-" if value is None else f"{value.ratio:.2f} in {value.wall_s:.0f} s"
