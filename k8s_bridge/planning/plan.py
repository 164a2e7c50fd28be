"""Plan the changes that make Slurm and Kubernetes consistent. Pure: values in, values out.

Rules (the bridge never reacts to its own writes):

* A drain by Holdfast in Slurm → cordon and taint, by policy. They are undone when the drain is gone, if the
  bridge set them. The same for the states of ``bridge.isolate``.
* A cordon by anyone else → drain in Slurm. It is undone when the cordon is gone, if the bridge drained the
  node.
* A rule of ``bridge.rules`` that holds for a Node (``signals``) → drain in Slurm, as for a cordon.
* A person's drain, cordon, uncordon or undrain stands: conditions report it, no action follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from holdfast.faults import severity_of
from holdfast.node_states import CANNOT_RETURN, NO_STATE
from holdfast.reason import Reason
from holdfast.records import leave
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, Severity
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.changes import (
    Change,
    DrainInSlurm,
    UndrainInSlurm,
    UpdateStatus,
    WriteRecord,
    requires_drain,
)
from k8s_bridge.model.node_mapping import map_nodes
from k8s_bridge.model.ownership import (
    CORDON,
    Origin,
    follows_cordon,
    is_cordon_drain,
    is_own_reason,
    may_overwrite_reason,
    recorded,
    same_drain,
)
from k8s_bridge.model.snapshot import KubeNode, is_cordoned_by_others, is_own_cordon
from k8s_bridge.names import KUBE_RULE
from k8s_bridge.planning import conditions
from k8s_bridge.planning.conditions import Withheld
from k8s_bridge.planning.isolation import for_drain, for_state, release
from k8s_bridge.planning.signals import rule_names
from k8s_bridge.planning.status_updates import status_update
from k8s_bridge.rules.rule import Cause, Rule, RuleMode
from k8s_bridge.rules.settings import effective
from k8s_bridge.state_table import Isolation, isolating

Rules = tuple[Rule, ...]


def plan(
    slurm: Sequence[SlurmNode], kube: Sequence[KubeNode], policy: BridgeConfig, now: datetime
) -> list[Change]:
    """All changes, urgent ones first.

    ``now`` is only the time of new conditions; no decision depends on it.
    """
    joined = map_nodes(slurm, kube, policy)
    actions: list[Change] = []
    updates: list[UpdateStatus] = []
    rules = tuple(rule for rule in effective(policy.rules) if rule.mode is RuleMode.DRAIN)
    look = conditions.Looks(show_planned=policy.show_planned)
    for node, view in joined.pairs:
        actions += _actions(node, view, policy, rules)
        if view.gone:
            continue
        shown, label = look.of(node, _withheld(node, view, policy))
        updates += status_update(view, shown, label, now)
    for view in joined.orphans:
        if view.conditions and not view.gone:
            updates += status_update(
                view,
                conditions.unknown(conditions.NOT_IN_SLURM, "Slurm does not know this node"),
                "unknown",
                now,
            )
    # What changed comes before mere refreshes: 10,000 Nodes take a while.
    updates.sort(key=lambda update: not update.events)
    return [*actions, *updates]


def plan_unreadable(kube: Sequence[KubeNode], now: datetime, why: str) -> list[Change]:
    """Slurm cannot be read: all conditions become Unknown, and no action is planned."""
    unknown = conditions.unknown(conditions.UNREADABLE, why)
    return [
        update
        for view in kube
        if view.conditions
        for update in status_update(view, unknown, "unknown", now)
    ]


def _actions(
    node: SlurmNode, view: KubeNode, policy: BridgeConfig, rules: Rules
) -> Iterator[Change]:
    if not node.states or node.states & NO_STATE:
        return
    if view.gone:
        new = next(_new_causes(view), None)
        if new is not None and not node.drained_flag and may_overwrite_reason(node):
            yield _drain_for(new, node, view)
        return
    mirrored = view.record is not None and view.record.origin is Origin.SLURM
    if node.drained_flag:
        yield from _when_drained(node, view, policy, rules)
        return
    isolated_for = isolating(node.states, policy.isolate)
    if mirrored and node.states & {NodeState.MAINTENANCE, NodeState.FAIL}:
        # Undrained inside a reservation for a test or a repair, or set to FAIL by a person, which clears
        # the DRAIN flag: it has not returned to service yet.
        return
    # Nor is an earlier isolation ended: the budget is counted again at the next look.
    if isolated_for is not None and view.not_isolated:
        return
    if isolated_for is not None:
        yield from for_state(view, *isolated_for)
    else:
        yield from _when_in_service(node, view, policy)


def _when_drained(
    node: SlurmNode, view: KubeNode, policy: BridgeConfig, rules: Rules
) -> Iterator[Change]:
    if is_cordon_drain(node, view.record, policy.slurm_user):
        yield from _when_drained_by_bridge(node, view, rules)
        return
    reason = Reason.parse(node.reason)
    if reason is not None and not is_own_reason(reason):
        yield from for_drain(node, view, reason.code, cordon=policy.cordon, taint=policy.taint)
        return
    if view.record and is_own_cordon(view) and follows_cordon(node):
        # It began between the end of the fault's drain and the end of the cordon: each would wait for
        # the end of the other.
        yield release(view, view.record)
        return
    # A person's drain: whether the Node follows is the site's choice.
    wanted = policy.isolate.get(NodeState.DRAIN.value, Isolation.NONE)
    if wanted is not Isolation.NONE:
        cordon = wanted is Isolation.CORDON and not follows_cordon(node)
        yield from for_drain(node, view, NodeState.DRAIN.value, cordon=cordon, taint=True)
    elif view.record and view.record.origin is Origin.KUBERNETES:
        # Somebody replaced the bridge's drain: it is theirs now.
        yield WriteRecord(kube=view, record=None)


def _when_drained_by_bridge(node: SlurmNode, view: KubeNode, rules: Rules) -> Iterator[Change]:
    record = view.record
    held = (*((CORDON,) if view.unschedulable else ()), *rule_names(view.causes))
    if not held:
        reason = Reason.parse(node.reason)
        by_rule = reason is not None and reason.code == KUBE_RULE
        # A cordon is a person's decision, so its end is one too; the end of a rule is none.
        if not by_rule or _may_return(node):
            yield UndrainInSlurm(slurm=node, kube=view, rules=rules)
        return
    if record and record.origin is Origin.SLURM:
        # The cordon and taint of an earlier fault: it is over, and this drain replaces its drain.
        yield release(view, record)
    elif record is None or not same_drain(node, record) or record.causes != held:
        # Not from the node: once Slurm has appended to the reason, user and time there are Slurm's.
        yield WriteRecord(kube=view, record=replace(recorded(node, record), causes=held))


def _may_return(node: SlurmNode) -> bool:
    """Would an undrain return the node, and has its agent no fatal fault to report? While the node is drained
    by others, the agent writes such a fault into the Comment (``policy.comments``)."""
    comment = Reason.parse(node.comment)
    masked = comment is not None and severity_of(comment.code) is Severity.FATAL
    return not masked and not node.states & CANNOT_RETURN


def _when_in_service(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Iterator[Change]:
    record = view.record
    if record and record.origin is Origin.SLURM:
        yield release(view, record)
    elif record:
        cordon = (CORDON,) if is_cordoned_by_others(view) else ()
        held = {*cordon, *(cause.rule.name for cause in view.causes)}
        if record.node not in ("", node.name):
            held = set()  # of another worker that ran here: nobody undrained this one
        kept = tuple(name for name in record.causes if name in held)
        if kept != record.causes:
            yield WriteRecord(kube=view, record=replace(record, causes=kept) if kept else None)
    if not may_overwrite_reason(node):
        return
    if policy.drain_on_cordon and requires_drain(view):
        yield DrainInSlurm(slurm=node, kube=view)
        return
    new = next(_new_causes(view), None)
    if new is not None:
        yield _drain_for(new, node, view)


def _drain_for(cause: Cause, node: SlurmNode, view: KubeNode) -> DrainInSlurm:
    until = None if cause.until is None else leave.rounded(cause.until)
    return DrainInSlurm(slurm=node, kube=view, rule=cause.rule, until=until)


def _new_causes(view: KubeNode) -> Iterator[Cause]:
    """Those that call for a drain, and in spite of which nobody has undrained the node."""
    return (c for c in view.causes if not c.withheld and c.rule.name not in view.drained_for)


def _withheld(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Withheld | None:
    """Why no drain follows from what Kubernetes shows; ``None`` where one does, or nothing calls for one."""
    if node.drained_flag:
        return None
    if policy.drain_on_cordon and is_cordoned_by_others(view):
        if not requires_drain(view):
            why = "undrained in Slurm while cordoned: in service until it is cordoned again"
            return Withheld("CordonNotFollowed", why)
        if not may_overwrite_reason(node):
            why = f"not drained for the cordon, to keep the reason in Slurm: {node.reason}"
            return Withheld("CordonNotFollowed", why)
        return None
    if view.not_isolated and not view.causes:
        return Withheld("NotIsolated", f"not isolated for its state: {view.not_isolated}")
    return _rule_withheld(node, view)


def _rule_withheld(node: SlurmNode, view: KubeNode) -> Withheld | None:
    new = next(_new_causes(view), None)
    cause = new or next(iter(view.causes), None)
    if cause is None:
        return None
    if cause.rule.mode is RuleMode.OBSERVE:
        return Withheld("RuleObserved", f"{cause.text}; not drained, as the rule's mode is observe")
    if cause.withheld:
        return Withheld("RuleWithheld", f"{cause.text}; not drained: {cause.withheld}")
    if new is None:
        why = f"{cause.text}; undrained in Slurm meanwhile: in service until the rule holds again"
        return Withheld("RuleNotFollowed", why)
    if may_overwrite_reason(node):
        return None
    why = f"{cause.text}; not drained, to keep the reason in Slurm: {node.reason}"
    return Withheld("RuleNotFollowed", why)
