"""Rule 4: how many nodes Holdfast may take out of service, counted from Slurm's own node table.

Agents have no leader. Each one counts, drains, and counts again. When several drained at the same time,
those beyond the budget withdraw, latest drain first (then by name). Every agent computes the same order
from the same table, so exactly the surplus withdraws. A return to service is never refused.

Faults that users can cause (a full disk, processes left behind) count against the whole budget and
against a part of it, so that no user can use up what hardware faults need (decision 022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol

from holdfast.faults import fault_of
from holdfast.node_states import NOT_DEFINED
from holdfast.reason import Reason
from holdfast.vocabulary import NodeState, SlurmName

KUBE_CORDON = "KUBE_CORDON"
"""The bridge's drain for a kubectl cordon: a person's decision, so it does not count here."""

KUBE_RULE = "KUBE_RULE"
"""The bridge's drain for a rule about the Kubernetes Node: it counts."""

NODE_DEATH = "NODE_DEATH"
"""The code of a node that was set DOWN because its neighbours found it dead."""

SPARE = 100
"""Nodes. ``Count.admits`` leaves so much room for what the number of changes does not show yet: slurmctld counts a
change after it has made it, and one change may be of several nodes."""

_NEVER = datetime.max.replace(tzinfo=timezone.utc)


class NodeRow(Protocol):
    """What the budget reads of a node (implemented by ``holdfast.slurm.client.SlurmNode``)."""

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


class BudgetLimits(Protocol):
    """``max_nodes`` in nodes, ``max_share`` of all nodes (0 to 1); the larger of the two counts.
    ``users_share`` of that (0 to 1) is for faults that users can cause."""

    @property
    def max_nodes(self) -> int: ...
    @property
    def max_share(self) -> float: ...
    @property
    def users_share(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether one more node may leave service: ``out`` of ``allowed`` are out of service by Holdfast,
    ``total`` exist. ``by_users``: ``out`` and ``allowed`` count only faults that users can cause.
    ``where``: they count only this failure domain. ``incident``: the fault that ``out`` nodes of it have, too
    many to drain each."""

    admitted: bool
    out: int
    allowed: int
    total: int
    by_users: bool = False
    where: str = ""
    incident: str = ""

    @property
    def why(self) -> str:
        """One clause for people."""
        if self.incident:
            return (
                f"{self.out} of {self.total} nodes of {self.where} have {self.incident}: one incident (a "
                "switch, a filesystem, power?), no further node of it is drained"
            )
        of = f" of {self.where}" if self.where else ""
        why = f"{self.out} of at most {self.allowed} nodes{of} are out of service by Holdfast"
        return f"{why} for faults that users can cause" if self.by_users else why


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The node table at one moment: ``total`` nodes, ``out`` of service by Holdfast, ``by_users`` of these for
    faults that users can cause.

    ``changes``: so many requests to change a node slurmctld had received before, counted from ``since``. Each of
    them takes at most one node out of service, nearly always. So a later number of changes, which costs
    slurmctld much less than the table, proves that the budget has room as long as there is plenty.
    """

    total: int
    out: int
    by_users: int
    changes: int
    since: int

    @classmethod
    def of(cls, table: Iterable[NodeRow], changes: int, since: int) -> Count:
        """``changes`` and ``since`` were read before the table."""
        nodes = [node for node in table if not node.states & NOT_DEFINED]
        return cls(
            total=len(nodes),
            out=sum(map(is_charged, nodes)),
            by_users=sum(map(is_by_users, nodes)),
            changes=changes,
            since=since,
        )

    def may_prove(self, limits: BudgetLimits) -> bool:
        """Is the budget so large that ``admits`` may ever answer?"""
        return allowed(limits, self.total) > SPARE

    def admits(self, changes: int, since: int, limits: BudgetLimits, code: str) -> Admission | None:
        """``admit`` at the time of a later number of changes, if the answer is certainly yes, whether or not
        this node is out by then; ``None``: the table has to be read."""
        if since != self.since or changes < self.changes:
            return None  # slurmctld has restarted, or begun a new day
        later = changes - self.changes + SPARE
        most = allowed(limits, self.total)
        if self.out + later >= most:
            return None
        if fault_of(code).by_users and self.by_users + later >= allowed_by_users(
            limits, self.total
        ):
            return None
        return Admission(admitted=True, out=self.out, allowed=most, total=self.total)


def newest(first: Count | None, second: Count | None) -> Count | None:
    """The later one of two counts."""
    counts = [count for count in (first, second) if count is not None]
    return max(counts, key=lambda count: (count.since, count.changes), default=None)


def allowed(limits: BudgetLimits, total: int) -> int:
    """Nodes that may be out of service at once in a cluster of ``total``."""
    # In floating point, 0.1 of 30 may be 2.9999999999999996.
    return max(limits.max_nodes, math.floor(limits.max_share * total + 1e-9))


def allowed_by_users(limits: BudgetLimits, total: int) -> int:
    """The part of these for faults that users can cause, rounded down: a budget of one node is for
    hardware faults."""
    return math.floor(limits.users_share * allowed(limits, total) + 1e-9)


def is_charged(node: NodeRow) -> bool:
    """True when Holdfast took the node out of service for a fault: drained it, or set it DOWN because it
    is dead."""
    out = node.drained_flag or NodeState.DOWN in node.states
    reason = Reason.parse(node.reason) if out else None
    if reason is None or reason.code == KUBE_CORDON:
        return False
    return node.drained_flag or reason.code == NODE_DEATH


def is_by_users(node: NodeRow) -> bool:
    """True when the fault is one that users can cause."""
    reason = Reason.parse(node.reason) if is_charged(node) else None
    return reason is not None and fault_of(reason.code).by_users


def admit(name: SlurmName, table: Iterable[NodeRow], limits: BudgetLimits, code: str) -> Admission:
    """May the node ``name`` be drained for the fault ``code``? A node that Holdfast drained already does
    not count twice."""
    nodes = [node for node in table if not node.states & NOT_DEFINED]
    out = {node.name for node in nodes if is_charged(node)}
    most = allowed(limits, len(nodes))
    admitted = name in out or len(out) < most
    if admitted and name not in out and fault_of(code).by_users:
        users = sum(map(is_by_users, nodes))
        users_most = allowed_by_users(limits, len(nodes))
        return Admission(
            admitted=users < users_most,
            out=users,
            allowed=users_most,
            total=len(nodes),
            by_users=True,
        )
    return Admission(admitted=admitted, out=len(out), allowed=most, total=len(nodes))


def in_drain_order(nodes: Iterable[NodeRow]) -> list[NodeRow]:
    """Those of the nodes that Holdfast has taken out of service, the first one first."""
    return sorted(filter(is_charged, nodes), key=lambda node: (node.reason_at or _NEVER, node.name))


def withdrawals(table: Iterable[NodeRow], limits: BudgetLimits) -> tuple[SlurmName, ...]:
    """The nodes whose agents must withdraw their drain; empty within the budget.

    First those beyond the users' part, then those beyond the whole budget; each in order of drain time.
    """
    nodes = [node for node in table if not node.states & NOT_DEFINED]
    out = in_drain_order(nodes)
    by_users = [node for node in out if is_by_users(node)]
    over = by_users[allowed_by_users(limits, len(nodes)) :]
    left = [node for node in out if node not in over]
    return tuple(node.name for node in (*over, *left[allowed(limits, len(nodes)) :]))
