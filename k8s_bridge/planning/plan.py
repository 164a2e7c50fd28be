"""Plan the changes that make Slurm and Kubernetes consistent. Pure: values in, values out.

Rules (the bridge never reacts to its own writes):

* A drain by Holdfast in Slurm → cordon and taint, by policy. They are undone when the drain is gone, if the
  bridge set them. The same for the states of ``bridge.isolate``.
* A cordon by anyone else → drain in Slurm. It is undone when the cordon is gone, if the bridge drained the
  node.
* A person's drain, cordon, uncordon or undrain stands: conditions report it, no action follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from holdfast.node_states import NO_STATE
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState
from k8s_bridge.config import BridgeConfig
from k8s_bridge.names import KUBE_CORDON
from k8s_bridge.planning import conditions
from k8s_bridge.planning.changes import (
    CHANGES,
    Change,
    DrainInSlurm,
    Isolate,
    NodeEvent,
    Release,
    UndrainInSlurm,
    UpdateStatus,
    WriteRecord,
)
from k8s_bridge.planning.conditions import Withheld
from k8s_bridge.planning.isolation import (
    for_drain,
    for_state,
    is_cordoned_by_others,
    release,
)
from k8s_bridge.planning.node_mapping import map_nodes
from k8s_bridge.planning.ownership import (
    BridgeRecord,
    Origin,
    is_cordon_drain,
    may_overwrite_reason,
    same_drain,
)
from k8s_bridge.planning.snapshot import KubeNode
from k8s_bridge.planning.state_table import Isolation, isolating
from k8s_bridge.planning.status_updates import status_update

__all__ = [
    "CHANGES",
    "Change",
    "DrainInSlurm",
    "Isolate",
    "NodeEvent",
    "Release",
    "UndrainInSlurm",
    "UpdateStatus",
    "WriteRecord",
    "is_cordoned_by_others",
    "plan",
    "plan_unreadable",
    "requires_drain",
]


def plan(
    slurm: Sequence[SlurmNode], kube: Sequence[KubeNode], policy: BridgeConfig, now: datetime
) -> list[Change]:
    """All changes, urgent ones first.

    ``now`` is only the time of new conditions; no decision depends on it.
    """
    joined = map_nodes(slurm, kube, policy)
    actions: list[Change] = []
    updates: list[UpdateStatus] = []
    for node, view in joined.pairs:
        actions += _actions(node, view, policy)
        shown = conditions.conditions(
            node, _withheld(node, view, policy), show_planned=policy.show_planned
        )
        updates += status_update(view, shown, conditions.label(node), now)
    for view in joined.orphans:
        if view.conditions:
            updates += status_update(
                view,
                conditions.unknown(conditions.NOT_IN_SLURM, "Slurm does not know this node"),
                "unknown",
                now,
            )
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


def _actions(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Iterator[Change]:
    if not node.states or node.states & NO_STATE:
        return
    mirrored = view.record is not None and view.record.origin is Origin.SLURM
    if node.drained_flag:
        yield from _when_drained(node, view, policy)
        return
    isolated_for = isolating(node.states, policy.isolate)
    if mirrored and node.states & {NodeState.MAINTENANCE, NodeState.FAIL}:
        # Undrained inside a reservation for a test or a repair, or set to FAIL by a person, which clears
        # the DRAIN flag: it has not returned to service yet.
        return
    if isolated_for is not None:
        yield from for_state(view, *isolated_for)
    else:
        yield from _when_in_service(node, view, policy)


def _when_drained(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Iterator[Change]:
    if is_cordon_drain(node, view.record, policy.slurm_user):
        yield from _when_drained_by_cordon(node, view)
        return
    reason = Reason.parse(node.reason)
    if reason is not None and reason.code != KUBE_CORDON:
        yield from for_drain(node, view, reason.code, cordon=policy.cordon, taint=policy.taint)
        return
    wanted = policy.isolate.get(NodeState.DRAIN.value, Isolation.NONE)
    if wanted is not Isolation.NONE:
        cordon = wanted is Isolation.CORDON
        yield from for_drain(node, view, NodeState.DRAIN.value, cordon=cordon, taint=True)
    elif view.record and view.record.origin is Origin.KUBERNETES:
        # Somebody replaced the bridge's drain: it is theirs now.
        yield WriteRecord(kube=view, record=None)


def _when_drained_by_cordon(node: SlurmNode, view: KubeNode) -> Iterator[Change]:
    record = view.record
    if not view.unschedulable:
        yield UndrainInSlurm(slurm=node, kube=view)
        return
    if record and record.origin is Origin.SLURM:
        # The cordon and taint of an earlier fault: it is over, and this drain replaces its drain.
        yield release(view, record)
    elif record is None or not same_drain(node, record):
        yield WriteRecord(kube=view, record=BridgeRecord.of(node, Origin.KUBERNETES))


def _when_in_service(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Iterator[Change]:
    record = view.record
    if record and record.origin is Origin.SLURM:
        yield release(view, record)
    if not is_cordoned_by_others(view):
        if record and record.origin is Origin.KUBERNETES:
            yield WriteRecord(kube=view, record=None)
    elif policy.drain_on_cordon and requires_drain(view) and may_overwrite_reason(node):
        yield DrainInSlurm(slurm=node, kube=view)


def requires_drain(view: KubeNode) -> bool:
    """A cordon by others that has not led to a drain yet.

    If it has, and the drain is gone while the cordon is there, somebody undrained the node on purpose.
    """
    drained_before = view.record is not None and view.record.origin is Origin.KUBERNETES
    return is_cordoned_by_others(view) and not drained_before


def _withheld(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Withheld | None:
    """Why a cordon is not followed by a drain; ``None`` when it is, or there is no such cordon."""
    if node.drained_flag or not policy.drain_on_cordon or not is_cordoned_by_others(view):
        return None
    if not requires_drain(view):
        why = "undrained in Slurm while cordoned: in service until it is cordoned again"
        return Withheld("CordonNotFollowed", why)
    if may_overwrite_reason(node):
        return None
    why = f"not drained for the cordon, to keep the reason in Slurm: {node.reason}"
    return Withheld("CordonNotFollowed", why)
