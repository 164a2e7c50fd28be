"""slurmd on this node: it answers, and slurmctld contacts it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_unheard_s``: longest time since the last message from slurmctld, which pings every node
    three times per SlurmdTimeout (300 s by default). 0: not judged, for SlurmdTimeout=0.
    """

    max_unheard_s: float = 900.0
    open_after: int = 2
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_unheard_s=(0, 86400))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    slurmd = facts.slurmd
    if slurmd is None:
        return
    if not slurmd.answers:
        yield finding("SLURMD_SILENT", subject="node", detail=f"slurmd: {slurmd.detail}")
    elif limits.max_unheard_s and (slurmd.heard_s or 0) > limits.max_unheard_s:
        yield finding(
            "SLURMD_UNHEARD",
            subject="node",
            detail=f"no message from slurmctld to slurmd for {slurmd.heard_s:.0f} s",
        )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    slurmd = facts.slurmd
    if slurmd is None:
        return
    heard = (
        ""
        if slurmd.heard_s is None
        else f", last message from slurmctld {slurmd.heard_s:.0f} s ago"
    )
    value = f"{slurmd.version} answers{heard}" if slurmd.answers else slurmd.detail
    limit = f", <= {limits.max_unheard_s:g} s" if limits.max_unheard_s else ""
    yield Reading(subject="node", value=value, limit=f"answers{limit}")


CHECK = Check(
    name="slurmd",
    probe="slurmd",
    limits=Limits,
    judge=judge,
    show=show,
)
