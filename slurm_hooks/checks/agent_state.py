"""What the agent itself has to keep and to know: its state folder takes writes, and its last return of
the node ended no drain of somebody else's.

Needs no probe of its own: the agent's own writes and questions are the source.
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
    """No value of its own: one write that fails is one too many."""

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
            limit="takes writes",
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
