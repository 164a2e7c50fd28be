"""Law 4: how much of the cluster Holdfast may take out of service, counted from Slurm's own table.

Agents have no leader. Each counts, drains, and counts again; when several drained in the same
moment all but the first (by drain time, then name) withdraw. Every agent computes the same order
from the same table, so exactly the surplus withdraws. Recoveries always pass: giving a node back is
never refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol

from holdfast.reasons import Reason
from holdfast.vocabulary import NodeState, SlurmName

KUBE_CORDON = "KUBE_CORDON"
"""The bridge's drain for a kubectl cordon: a person's decision, so it is not charged to us."""

_NOT_THERE = {NodeState.FUTURE, NodeState.DYNAMIC_FUTURE}
_NEVER = datetime.max.replace(tzinfo=timezone.utc)


class NodeRow(Protocol):
    """What the budget needs of a node (``holdfast.adapters.slurm.SlurmNode`` has it)."""

    @property
    def name(self) -> SlurmName: ...
    @property
    def states(self) -> frozenset[NodeState]: ...
    @property
    def reason(self) -> str: ...
    @property
    def reason_at(self) -> datetime | None: ...
    @property
    def drained_flag(self) -> bool: ...


class Limits(Protocol):
    """``max_nodes`` in nodes, ``max_share`` of all nodes (0 to 1); the larger of the two counts."""

    @property
    def max_nodes(self) -> int: ...
    @property
    def max_share(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether one more node may leave service: ``out`` of ``allowed`` are out, ``total`` exist."""

    admitted: bool
    out: int
    allowed: int
    total: int

    @property
    def why(self) -> str:
        """One clause for people."""
        return f"{self.out} of at most {self.allowed} nodes are out by Holdfast"


def allowed(limits: Limits, total: int) -> int:
    """Nodes that may be out at once in a cluster of ``total``."""
    # A share like 0.1 of 30 is 3.0000000000000004 or 2.9999999999999996, by luck.
    return max(limits.max_nodes, math.floor(limits.max_share * total + 1e-9))


def is_charged(node: NodeRow) -> bool:
    """True when the node is out of service by Holdfast's own judgement."""
    reason = Reason.parse(node.reason) if node.drained_flag else None
    return reason is not None and reason.code != KUBE_CORDON


def admit(name: SlurmName, table: Iterable[NodeRow], limits: Limits) -> Admission:
    """May the node ``name`` be drained? A node that is out by us already may always be again."""
    nodes = [node for node in table if not node.states & _NOT_THERE]
    out = {node.name for node in nodes if is_charged(node)}
    most = allowed(limits, len(nodes))
    admitted = name in out or len(out) < most
    return Admission(admitted=admitted, out=len(out), allowed=most, total=len(nodes))


def withdrawals(table: Iterable[NodeRow], limits: Limits) -> tuple[SlurmName, ...]:
    """The nodes whose agents must withdraw their drain, newest last; empty within the budget."""
    nodes = [node for node in table if not node.states & _NOT_THERE]
    out = sorted(filter(is_charged, nodes), key=lambda node: (node.reason_at or _NEVER, node.name))
    return tuple(node.name for node in out[allowed(limits, len(nodes)) :])
