"""What follows for a job that names its nodes (``sbatch --nodelist``) when one of them is bad. Pure.

Slurm starts such a job on all nodes of the list or not at all, so with one that is drained it waits until that node
is back. The list is its owner's wish: it is shortened only where the owner or the site has allowed that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from dataclasses import replace
from enum import Enum
from typing import Protocol

from holdfast.node_states import JOBS_LOST
from holdfast.policy.job.facts import JobDecision, Next
from holdfast.vocabulary import NodeState, SlurmName


class ReplaceNodes(str, Enum):
    """Whether another node may take the place of a bad one that the job names."""

    NEVER = "never"
    ASKED = "asked"
    """If its owner has asked for it: ``holdfast run --replace-nodes``."""
    ALWAYS = "always"

    def allows(self, *, asked: bool) -> bool:
        return self is ReplaceNodes.ALWAYS or (asked and self is ReplaceNodes.ASKED)


class NamedNode(Protocol):
    """What is read of a node (implemented by ``holdfast.slurm.client.SlurmNode``)."""

    @property
    def name(self) -> SlurmName: ...
    @property
    def states(self) -> Set[NodeState]: ...
    @property
    def drained_flag(self) -> bool: ...


def kept(named: Iterable[NamedNode], avoid: Collection[str]) -> tuple[SlurmName, ...]:
    """The named nodes on which the job can start, sorted. ``avoid``: nodes that its next run must avoid."""
    usable = (node for node in named if not (node.drained_flag or node.states & JOBS_LOST))
    return tuple(sorted(node.name for node in usable if node.name not in avoid))


def said(
    decision: JobDecision,
    named: Collection[SlurmName],
    out_of_service: Collection[SlurmName],
    *,
    replaced: bool,
) -> JobDecision:
    """The decision with what it means for the nodes that the job names (``named``), of which some may be
    ``out_of_service``. ``replaced``: other nodes may take their place."""
    if decision.next is not Next.REQUEUE:
        return decision
    bad = ", ".join(sorted({*decision.exclude, *out_of_service} & set(named)))
    if replaced:
        more = f"; another node takes the place of {bad}, which --nodelist names"
        return replace(decision, why=decision.why + more) if bad else decision
    # Slurm refuses a list of excluded nodes that has one of those that the job names.
    exclude = tuple(node for node in decision.exclude if node not in named)
    waits = ", ".join(sorted(set(out_of_service) & set(named)))
    more = f"; it waits for {waits}, which --nodelist names (--replace-nodes replaces it)"
    return replace(decision, why=decision.why + more * bool(waits), exclude=exclude)
