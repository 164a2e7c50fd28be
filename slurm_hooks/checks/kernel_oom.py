"""Tasks that the kernel killed for memory: within a job's limit (the job's own fault) or for want of memory on
the node.
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
    """``max_system_per_hour``: tasks of one name killed for want of memory on the node that pass without a word."""

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
