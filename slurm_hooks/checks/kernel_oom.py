"""Tasks that the OOM killer ended: in a job that reached its memory limit, or because the node was
out of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.kernel_log import (
    HOUR_S,
    Most,
    Rules,
    counts_in_range,
    judge_events,
    show_events,
)
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_system_per_hour``: kills of tasks with one name that are allowed when the node is out of memory."""

    max_system_per_hour: int = 0
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        counts_in_range(self, "max_system_per_hour")


def _rules(limits: Limits) -> Rules:
    return {
        "OOM_JOB": Most(),
        "OOM_SYSTEM": Most(limits.max_system_per_hour, HOUR_S),
    }


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for _, found in judge_events(facts, _rules(limits)):
        yield found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    yield from show_events(facts, _rules(limits))


CHECK = Check(
    name="kernel_oom",
    probe="kmsg",
    limits=Limits,
    judge=judge,
    show=show,
)
