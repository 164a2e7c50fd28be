"""This node's clock, compared with slurmctld's. Credentials and job start times depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import ClockFacts, NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_skew_s``: largest difference, after the error of the measurement is subtracted."""

    max_skew_s: float = 5.0
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        if not 0 < self.max_skew_s <= 86400:
            raise ValueError(
                f"max_skew_s must be above 0 and at most a day, got {self.max_skew_s:g}"
            )


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    if facts.clock is not None and _certain_skew_s(facts.clock) > limits.max_skew_s:
        yield finding(
            "CLOCK_SKEW",
            subject="node",
            detail=f"clock differs from slurmctld's by {facts.clock.skew_s:+.1f} s",
        )


def _certain_skew_s(clock: ClockFacts) -> float:
    return max(0.0, abs(clock.skew_s) - clock.error_s)


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    if facts.clock is not None:
        yield Reading(
            subject="node",
            value=f"{facts.clock.skew_s:+.1f} s (± {facts.clock.error_s:.1f})",
            limit=f"<= {limits.max_skew_s:g} s",
        )


CHECK = Check(
    name="clock",
    probe="clock",
    limits=Limits,
    judge=judge,
    show=show,
)
