"""Hung tasks, CPU lockups and kernel bugs that the kernel's watchdogs report in the kernel log.

For a task that hangs in the NVIDIA driver see the check ``kernel_driver``.
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
    """Records allowed in an hour: of tasks with one name, and of one CPU."""

    max_hung_per_hour: int = 0
    max_lockups_per_hour: int = 0
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        counts_in_range(self, "max_hung_per_hour", "max_lockups_per_hour")


def _rules(limits: Limits) -> Rules:
    return {
        "HUNG_TASK": Most(limits.max_hung_per_hour, HOUR_S),
        "CPU_LOCKUP": Most(limits.max_lockups_per_hour, HOUR_S),
        "KERNEL_OOPS": Most(),
    }


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    log = facts.kmsg
    in_driver = {event.subject for event in log.of("DRIVER_TASK_HUNG")} if log else set()
    for event, found in judge_events(facts, _rules(limits)):
        if event.code != "HUNG_TASK" or event.subject not in in_driver:
            yield found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    yield from show_events(facts, _rules(limits))


CHECK = Check(
    name="kernel_hung_task",
    probe="kmsg",
    limits=Limits,
    judge=judge,
    show=show,
)
