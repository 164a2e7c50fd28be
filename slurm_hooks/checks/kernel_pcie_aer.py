"""PCIe errors (AER) in the kernel log, also those that the firmware reports.

A fatal error shortly before or after an Xid 79 is the same lost GPU, reported by the port above it:
then the Xid is the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.kernel_log import (
    DAY_S,
    HOUR_S,
    Most,
    Rules,
    counts_in_range,
    judge_events,
    show_events,
)
from slurm_hooks.facts import NodeFacts

_TOGETHER_S = 30.0
"""The port and the driver report the same loss of a GPU within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_corrected_per_hour``, ``max_nonfatal_per_day``: records of one device that are allowed. A
    corrected error costs one retry; the default allows more than one per minute (DCGM's limit is 31
    replays per minute on x16). ``ignore``: shell patterns of PCI addresses.
    """

    max_corrected_per_hour: int = 100
    max_nonfatal_per_day: int = 0
    ignore: frozenset[str] = frozenset()
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        counts_in_range(self, "max_corrected_per_hour", "max_nonfatal_per_day")


def _rules(limits: Limits) -> Rules:
    return {
        "AER_FATAL": Most(),
        "AER_NONFATAL": Most(limits.max_nonfatal_per_day, DAY_S),
        "AER_CORRECTED": Most(limits.max_corrected_per_hour, HOUR_S),
    }


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    losses = [xid.at_s for xid in facts.kmsg.xids if xid.xid == 79] if facts.kmsg else []
    for event, found in judge_events(facts, _rules(limits), limits.ignore):
        follows = any(abs(event.at_s - at_s) <= _TOGETHER_S for at_s in losses)
        gpu = facts.gpu_at(event.subject.partition(".")[0])
        if gpu is not None:  # the GPU itself, not the port above it
            found = replace(found, gpu=gpu.index, subject=gpu.subject)
        yield replace(found, cause=False) if follows else found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    yield from show_events(facts, _rules(limits), limits.ignore)


CHECK = Check(
    name="kernel_pcie_aer",
    probe="kmsg",
    limits=Limits,
    judge=judge,
    show=show,
)
