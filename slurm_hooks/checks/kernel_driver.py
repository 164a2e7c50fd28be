"""The NVIDIA driver in the kernel log, apart from Xids: tasks that hang in the driver, and GPUs that
it cannot initialise.

These findings only confirm others: the checks ``driver_hung`` and ``gpu_count`` drain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.kernel_log import (
    Most,
    Rules,
    judge_events,
    show_events,
)
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """No thresholds."""

    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)


def _rules(_limits: Limits) -> Rules:
    return {
        "DRIVER_TASK_HUNG": Most(),
        "GPU_INIT_FAILED": Most(),
    }


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for event, found in judge_events(facts, _rules(limits)):
        gpu = facts.gpu_at(event.subject.partition(".")[0])
        yield replace(found, gpu=gpu.index, subject=gpu.subject) if gpu is not None else found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    yield from show_events(facts, _rules(limits))


CHECK = Check(
    name="kernel_driver",
    probe="kmsg",
    limits=Limits,
    judge=judge,
    show=show,
)
