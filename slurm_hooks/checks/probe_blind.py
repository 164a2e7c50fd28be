"""A probe that repeatedly gives no answer. Without an answer nothing is known, neither healthy nor
faulty; this finding reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from holdfast.text.wording import counted
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import Blind, NodeFacts

_NOT_THIS_NODE = frozenset({"clock"})
"""The clock probe fails when slurmctld is down, which is no fault of this node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_passes``: consecutive passes in which a probe may give no answer."""

    max_passes: int = 5
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_passes=(1, 1000))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for blind in _silent(facts, limits):
        yield finding(
            "PROBE_BLIND",
            subject=blind.probe,
            detail=f"probe {blind.probe} gave no answer {counted(blind.passes, 'time')}: {blind.why}",
        )


def _silent(facts: NodeFacts, limits: Limits) -> Iterator[Blind]:
    for blind in facts.blind:
        if blind.passes > limits.max_passes and blind.probe not in _NOT_THIS_NODE:
            yield blind


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for blind in _silent(facts, limits):
        yield Reading(
            subject=blind.probe,
            value=f"no answer for {counted(blind.passes, 'pass', 'passes')}: {blind.why}",
            limit=f"<= {limits.max_passes}",
        )


CHECK = Check(
    name="probe_blind",
    limits=Limits,
    judge=judge,
    show=show,
)
