"""The agent's own state: its state folder is writable, and it is confirmed that its last return of
the node to service ended no drain of another owner.

It needs no probe: the source is the agent's own writes and requests to Slurm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """No threshold: one failed write is a finding."""

    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    del limits
    if facts.unwritten:
        yield finding("STATE_UNWRITABLE", subject="state folder", detail=facts.unwritten)
    if facts.unconfirmed:
        yield finding("RETURN_UNCONFIRMED", subject="node", detail=facts.unconfirmed)


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    del limits
    if facts.unwritten:
        yield Reading(
            subject="state folder",
            value=facts.unwritten,
            limit="writable",
            code="STATE_UNWRITABLE",
        )
    if facts.unconfirmed:
        yield Reading(
            subject="node",
            value=facts.unconfirmed,
            limit="confirmed",
            code="RETURN_UNCONFIRMED",
        )


CHECK = Check(
    name="agent_state",
    limits=Limits,
    judge=judge,
    show=show,
)
