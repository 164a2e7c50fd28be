"""Rule 4 for the bridge: how many nodes rules and states may take out of service. Pure.

Counted from Slurm's node table, as the agents count, plus the Nodes that the bridge isolates for their state.
Nothing is remembered, so the budget opens again as soon as nodes return.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.node_states import NOT_DEFINED
from holdfast.policy.budget import is_charged
from holdfast.policy.failure_domain import is_incident, room
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import KubeName, NodeState, SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.planning.isolation import is_state_record, state_cause
from k8s_bridge.rules.rule import Cause, RuleMode
from k8s_bridge.rules.settings import BridgeBudget
from k8s_bridge.state_table import isolating

SPENT = "the budget is spent (bridge.budget)"
DOMAIN_SPENT = "the budget of {} is spent (bridge.budget.domain_share)"
Domains = Mapping[SlurmName, str]
"""Slurm node → its leaf switch or block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """``causes`` with what withholds each, ``not_isolated``: why a Node is not isolated for its state, and
    one line for each of the ``incidents``."""

    causes: Mapping[KubeName, tuple[Cause, ...]]
    not_isolated: Mapping[KubeName, str]
    incidents: tuple[str, ...]

    @property
    def any(self) -> bool:
        """Is there anything to show?"""
        return bool(self.causes or self.not_isolated)


def decide(
    slurm: Sequence[SlurmNode],
    nodes: Mapping[KubeName, SlurmNode],
    views: Sequence[KubeNode],
    causes: Mapping[KubeName, tuple[Cause, ...]],
    policy: BridgeConfig,
    domains: Domains,
) -> Decision:
    """Which causes lead to a drain now: the oldest ones (by their text, then by name) within the budget.
    ``nodes``: Slurm's nodes by the name of their Node. ``domains`` count where the policy names no label.
    """
    if not causes and not policy.isolate:
        return Decision(causes={}, not_isolated={}, incidents=())
    total = sum(1 for node in slurm if not node.states & NOT_DEFINED)
    limits = policy.budget
    # 1e-9: 0.1 * 30 is a little less than 3 in binary.
    most = max(limits.max_nodes, int(limits.max_share * total + 1e-9))
    isolated = [view.name for view in views if view.record and is_state_record(view.record)]
    out = {node.name for node in slurm if is_charged(node)}
    out |= {nodes[name].name for name in isolated if name in nodes}
    matched = {
        view.name: view
        for view in views
        if view.name in nodes
        and any(cause.rule.mode is RuleMode.DRAIN for cause in causes.get(view.name, ()))
    }
    groups = _Groups(views, nodes, domains, limits) if matched else None
    held, incidents = _incidents(matched, groups, total, limits) if groups else ({}, ())
    free = most - len(out)
    if groups:
        groups.count_out(out)
    decided = dict(causes)
    for name in sorted(matched, key=lambda name: (_oldest(causes[name]), name)):
        # Out of service already, or returned by a person: neither needs room in the budget.
        if nodes[name].drained_flag or _lifted(matched[name], causes[name]):
            continue
        why = held.get(name, "" if free > 0 else SPENT) or (groups.admit(name) if groups else "")
        # What is withheld leaves its place to the next one.
        free -= not why
        if why:
            decided[name] = tuple(
                cause if cause.withheld else cause._replace(withheld=why) for cause in causes[name]
            )
    return Decision(
        causes=decided, not_isolated=_not_isolated(nodes, views, free, policy), incidents=incidents
    )


def _oldest(causes: Sequence[Cause]) -> str:
    """The earliest time in the causes' texts; they end with it."""
    return min(cause.text.rpartition(" since ")[2] for cause in causes)


def _lifted(view: KubeNode, causes: Sequence[Cause]) -> bool:
    """A person undrained the node while all of these held."""
    return all(cause.rule.name in view.drained_for for cause in causes if not cause.withheld)


class _Groups:
    """The failure domains of one look."""

    def __init__(
        self,
        views: Sequence[KubeNode],
        nodes: Mapping[KubeName, SlurmNode],
        domains: Domains,
        limits: BridgeBudget,
    ):
        label = limits.domain_label
        self.kind = label or "topology"
        self._share = limits.domain_share
        self.of = {
            view.name: view.labels.get(label, "") if label else domains.get(node.name, "")
            for view in views
            if (node := nodes.get(view.name)) is not None
        }
        self.sizes = Counter(self.of.values())
        self._by_slurm = {nodes[name].name: domain for name, domain in self.of.items()}
        self._out: Counter[str] = Counter()

    def count_out(self, out: Iterable[SlurmName]) -> None:
        """``out``: the nodes that are out of service by Holdfast."""
        self._out = Counter(self._by_slurm.get(name, "") for name in out)

    def admit(self, name: KubeName) -> str:
        """Why that node may not be drained because of its domain; empty: it may, and counts."""
        domain = self.of[name]
        if domain and self._out[domain] >= room(self._share, self.sizes[domain]):
            return DOMAIN_SPENT.format(f"{self.kind}={domain}")
        self._out[domain] += 1
        return ""


def _incidents(
    matched: Mapping[KubeName, KubeNode], groups: _Groups, total: int, limits: BridgeBudget
) -> tuple[dict[KubeName, str], tuple[str, ...]]:
    """Nodes of which too many match at once, each with the reason, and a line for each incident."""
    share = limits.incident_share
    # The whole cluster is judged first: its line says more than one for each domain.
    if is_incident(len(matched), total, share):
        why = "more than bridge.budget.incident_share of the cluster: one incident"
        return dict.fromkeys(matched, why), (
            f"rules match {len(matched)} of {total} nodes, more than bridge.budget.incident_share: one "
            "incident of the cluster, or a rule that matches everything; none of them is drained",
        )
    found, sizes = Counter(groups.of[name] for name in matched), groups.sizes
    bad = {
        domain
        for domain, count in found.items()
        if domain and is_incident(count, sizes[domain], share)
    }
    held = {
        name: f"more than bridge.budget.incident_share of {groups.kind}={groups.of[name]}: one incident"
        for name in matched
        if groups.of[name] in bad
    }
    return held, tuple(
        f"rules match {found[domain]} of {sizes[domain]} nodes of {groups.kind}={domain}: one incident (a "
        "switch, a filesystem, power?); none of them is drained"
        for domain in sorted(bad)
    )


def _not_isolated(
    nodes: Mapping[KubeName, SlurmNode], views: Sequence[KubeNode], free: int, policy: BridgeConfig
) -> dict[KubeName, str]:
    """The Nodes that ``bridge.isolate`` names and for which the budget has no room, last names last."""
    if not policy.isolate:
        return {}
    held = {}
    for view in sorted(views, key=lambda view: view.name):
        node = nodes.get(view.name)
        found = isolating(node.states, policy.isolate) if node is not None else None
        if node is None or found is None or found[0] is NodeState.DRAIN or node.drained_flag:
            continue
        # Isolated for this state already: it is in the count of nodes that are out.
        if view.record is not None and view.record.reason == state_cause(found[0]).reason:
            continue
        if free <= 0:
            held[view.name] = SPENT
        free -= 1
    return held
