"""Kernel log records that were overwritten before the agent read them. An Xid may be among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_lost``: lost records since boot that are allowed."""

    max_lost: int = 0
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_lost=(0, 1_000_000))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    if facts.kmsg is not None and facts.kmsg.lost_records > limits.max_lost:
        yield finding(
            "KMSG_LOST",
            subject="node",
            detail=f"{facts.kmsg.lost_records} kernel log records were lost since boot",
        )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    if facts.kmsg is not None:
        yield Reading(
            subject="node", value=f"{facts.kmsg.lost_records} lost", limit=f"<= {limits.max_lost}"
        )


CHECK = Check(
    name="kmsg",
    probe="kmsg",
    limits=Limits,
    judge=judge,
    show=show,
)
