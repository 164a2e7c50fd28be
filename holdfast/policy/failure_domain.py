"""Failure domains: the nodes that fail together, such as those of one leaf switch. Pure.

In a domain no more than a share of the nodes may be out of service by Holdfast, as in the whole cluster. If
most nodes of a domain have the same fault, that is one incident of what they share (a switch, a filesystem,
power), and to drain each of them helps nobody: no further one is drained.

Agents have no leader, so what an agent knows of other nodes is what Slurm shows: who is out of service for
which fault, and who would be, but for the budget (``wants``). The bridge knows all that its rules match; it uses
``room`` and ``is_incident`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.node_states import NOT_DEFINED
from holdfast.policy.budget import Admission, NodeRow, in_drain_order, is_charged
from holdfast.policy.node_drain import OVER_BUDGET
from holdfast.reason import Reason
from holdfast.vocabulary import SlurmName

SMALLEST = 3
"""Nodes. In a smaller domain, one node more or less is no sign of an incident."""


class CommentedRow(NodeRow, Protocol):
    """What is read of a node here."""

    @property
    def comment(self) -> str: ...


class DomainLimits(Protocol):
    """``domain_share`` of a domain's nodes (0 to 1) may be out of service. If more than ``incident_share`` of
    its nodes have one fault, it is an incident."""

    @property
    def domain_share(self) -> float: ...
    @property
    def incident_share(self) -> float: ...


class Group(Protocol):
    """As ``holdfast.slurm.topology.Group``."""

    @property
    def name(self) -> str: ...
    @property
    def nodes(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The leaf switch or block of a node, and its nodes. Without a name: it has none."""

    name: str = ""
    nodes: frozenset[str] = frozenset()


def domain_of(name: SlurmName, groups: Iterable[Group]) -> Domain:
    """The first group with this node."""
    for group in groups:
        if name in group.nodes:
            return Domain(name=group.name, nodes=frozenset(group.nodes))
    return Domain()


def room(share: float, size: int) -> int:
    """How many nodes of a domain of ``size`` may be out of service: one always."""
    return max(1, int(share * size + 1e-9))


def is_incident(count: int, size: int, share: float) -> bool:
    """Do so many nodes of ``size`` have the same cause that it is one incident?"""
    return size >= SMALLEST and count > share * size


def refusal(
    name: SlurmName, code: str, table: Sequence[CommentedRow], domain: Domain, limits: DomainLimits
) -> Admission | None:
    """Why the node may not be drained for the fault ``code``, though the cluster's budget has room; ``None``: it
    may. A node that Holdfast drained already stays drained."""
    nodes = [node for node in table if not node.states & NOT_DEFINED]
    if any(node.name == name and is_charged(node) for node in nodes):
        return None
    inside = [node for node in nodes if node.name in domain.nodes]
    for part, where in (
        (nodes, "the cluster"),
        (inside, domain.name and f"topology={domain.name}"),
    ):
        count = sum(node.name == name or wants(node, code) for node in part)
        if where and is_incident(count, len(part), limits.incident_share):
            return Admission(
                admitted=False, out=count, allowed=0, total=len(part), where=where, incident=code
            )
    out, most = sum(map(is_charged, inside)), room(limits.domain_share, len(inside))
    if not inside or out < most:
        return None
    where = f"topology={domain.name}"
    return Admission(admitted=False, out=out, allowed=most, total=len(inside), where=where)


def wants(node: CommentedRow, code: str) -> bool:
    """Is the node out of service by Holdfast for this fault, or would it be, but for the budget?"""
    if is_charged(node):
        reason = Reason.parse(node.reason)
        return reason is not None and reason.code == code
    reason = Reason.parse(node.comment)
    return reason is not None and reason.code == code and reason.detail.startswith(OVER_BUDGET)


def withdrawals(
    table: Iterable[NodeRow], domain: Domain, limits: DomainLimits
) -> tuple[SlurmName, ...]:
    """The nodes of the domain whose agents must withdraw their drain, as ``budget.withdrawals`` has it for the
    cluster: those that were drained last."""
    inside = [n for n in table if n.name in domain.nodes and not n.states & NOT_DEFINED]
    out = in_drain_order(inside)
    return tuple(node.name for node in out[room(limits.domain_share, len(inside)) :])
