"""Plan the changes that make Slurm and Kubernetes consistent. Pure: values in, values out.

Rules (the bridge never reacts to its own writes):

* A drain by Holdfast in Slurm → cordon and taint, by policy. They are undone when the drain is gone, if the
  bridge set them.
* A cordon by anyone else → drain in Slurm. It is undone when the cordon is gone, if the bridge drained the
  node.
* A person's drain, cordon, uncordon or undrain stands: conditions report it, no action follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import get_args

from holdfast.node_states import NO_STATE
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState
from k8s_bridge.config import BridgeConfig
from k8s_bridge.names import DRAINED, FIELD_MANAGER, KUBE_CORDON, READY
from k8s_bridge.planning import conditions
from k8s_bridge.planning.node_mapping import map_nodes
from k8s_bridge.planning.ownership import (
    BridgeRecord,
    Origin,
    is_cordon_drain,
    may_overwrite_reason,
    same_drain,
)
from k8s_bridge.planning.snapshot import Condition, KubeNode


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """One Event about a Node.

    ``since`` is the time of the previous state; with it, a repeated Event gets the same name.
    """

    reason: str
    note: str
    warning: bool
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolate:
    """Cordon and/or taint the Node because Slurm drained it, and record it, in one write."""

    kube: KubeNode
    cordon: bool
    taint: str | None
    record: BridgeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Undo what ``Isolate`` did, unless somebody changed it since, and drop the record, in one write."""

    kube: KubeNode
    uncordon: bool
    untaint: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRecord:
    """Write the record, or remove it (``None``)."""

    kube: KubeNode
    record: BridgeRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainInSlurm:
    """Drain the Slurm node because its Node was cordoned."""

    slurm: SlurmNode
    kube: KubeNode


@dataclass(frozen=True, slots=True, kw_only=True)
class UndrainInSlurm:
    """Undrain the Slurm node: the cordon is gone, and the bridge set the drain."""

    slurm: SlurmNode
    kube: KubeNode


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStatus:
    """Write the changed conditions and the label (``None``: unchanged), and create Events for transitions."""

    kube: KubeNode
    conditions: tuple[Condition, ...]
    label: str | None
    events: tuple[NodeEvent, ...]


Change = Isolate | Release | WriteRecord | DrainInSlurm | UndrainInSlurm | UpdateStatus
CHANGES = tuple(kind.__name__ for kind in get_args(Change))
"""The names of all kinds of changes, as in ``--plan --json`` and in the metrics."""


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
        withheld = _withheld(node, view, policy)
        updates += _status_update(
            view, conditions.conditions(node, withheld), conditions.label(node), now
        )
    for view in joined.orphans:
        if view.conditions:
            updates += _status_update(
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
        for update in _status_update(view, unknown, "unknown", now)
    ]


def _actions(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Iterator[Change]:
    if not node.states or node.states & NO_STATE:
        return
    mirrored = view.record is not None and view.record.origin is Origin.SLURM
    if node.drained_flag:
        yield from _when_drained(node, view, policy)
    elif mirrored and node.states & {NodeState.MAINTENANCE, NodeState.FAIL}:
        # Undrained inside a reservation for a test or a repair, or set to FAIL by a person, which clears
        # the DRAIN flag: it has not returned to service yet.
        return
    else:
        yield from _when_in_service(node, view, policy)


def _when_drained(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Iterator[Change]:
    record = view.record
    if is_cordon_drain(node, record, policy.slurm_user):
        yield from _when_drained_by_cordon(node, view)
        return
    reason = Reason.parse(node.reason)
    if reason is not None and reason.code != KUBE_CORDON:
        yield from _when_drained_by_holdfast(node, view, reason, policy)
    elif record and record.origin is Origin.KUBERNETES:
        # Somebody replaced the bridge's drain: it is theirs now.
        yield WriteRecord(kube=view, record=None)


def _when_drained_by_cordon(node: SlurmNode, view: KubeNode) -> Iterator[Change]:
    record = view.record
    if not view.unschedulable:
        yield UndrainInSlurm(slurm=node, kube=view)
        return
    if record and record.origin is Origin.SLURM:
        # The cordon and taint of an earlier fault: it is over, and this drain replaces its drain.
        yield _release(view, record)
    elif record is None or not same_drain(node, record):
        yield WriteRecord(kube=view, record=BridgeRecord.of(node, Origin.KUBERNETES))


def _when_drained_by_holdfast(
    node: SlurmNode, view: KubeNode, reason: Reason, policy: BridgeConfig
) -> Iterator[Change]:
    record = view.record
    mirrored = record if record and record.origin is Origin.SLURM else None
    if mirrored and same_drain(node, mirrored):
        kept = replace(
            mirrored,
            cordon=mirrored.cordon and _is_own_cordon(view),
            taint=mirrored.taint and view.taint == reason.code,
        )
        if kept != mirrored:
            # Somebody undid it or changed it manually. It stays so until the next drain.
            yield WriteRecord(kube=view, record=kept)
        return
    own_taint = mirrored is not None and mirrored.taint and view.taint is not None
    may_taint = policy.taint and (own_taint or view.taint is None)
    cordon = policy.cordon and not view.unschedulable
    wanted = BridgeRecord.of(
        node, Origin.SLURM, cordon=cordon or _is_own_cordon(view), taint=may_taint or own_taint
    )
    if wanted.cordon or wanted.taint:
        taint = reason.code if may_taint and view.taint != reason.code else None
        yield Isolate(kube=view, cordon=cordon, taint=taint, record=wanted)
    elif record:
        yield WriteRecord(kube=view, record=None)


def _when_in_service(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Iterator[Change]:
    record = view.record
    if record and record.origin is Origin.SLURM:
        yield _release(view, record)
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


def _withheld(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> str:
    """Why a cordon is not followed by a drain; empty when it is, or there is no such cordon."""
    if node.drained_flag or not policy.drain_on_cordon or not is_cordoned_by_others(view):
        return ""
    if not requires_drain(view):
        return "undrained in Slurm while cordoned: in service until it is cordoned again"
    kept = f"not drained for the cordon, to keep the reason in Slurm: {node.reason}"
    return "" if may_overwrite_reason(node) else kept


def _release(view: KubeNode, record: BridgeRecord) -> Release:
    return Release(
        kube=view,
        uncordon=record.cordon and _is_own_cordon(view),
        untaint=record.taint and view.taint is not None,
    )


def _is_own_cordon(view: KubeNode) -> bool:
    """The record has the cordon and, where the API server kept it, the bridge is the field's manager."""
    record = view.record
    recorded = record is not None and record.origin is Origin.SLURM and record.cordon
    return view.unschedulable and recorded and view.cordoned_by in ("", FIELD_MANAGER)


def is_cordoned_by_others(view: KubeNode) -> bool:
    """True for a cordon that the bridge did not set."""
    return view.unschedulable and not _is_own_cordon(view) and view.cordoned_by != FIELD_MANAGER


def _status_update(
    view: KubeNode, wanted: tuple[Condition, ...], label: str, now: datetime
) -> Iterator[UpdateStatus]:
    changed = []
    events: list[NodeEvent] = []
    stamp = f"{now.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    for condition in wanted:
        old = view.conditions.get(condition.type)
        if condition.same_content(old):
            continue
        kept = old is not None and old.status == condition.status
        changed.append(replace(condition, since=old.since if old and kept else stamp))
        if not kept:
            events += _event_for(condition, old)
    if changed or view.label != label:
        yield UpdateStatus(
            kube=view,
            conditions=tuple(changed),
            label=label if view.label != label else None,
            events=tuple(events),
        )


# (condition, new status) → Event reason, and whether it is a warning. Busy changes with each job: no Event.
_EVENTS = {
    (DRAINED, "True"): ("SlurmDrained", True),
    (DRAINED, "False"): ("SlurmUndrained", False),
    (READY, "True"): ("SlurmReady", False),
    (READY, "False"): ("SlurmNotReady", True),
}


def _event_for(new: Condition, old: Condition | None) -> Iterator[NodeEvent]:
    """No Event for the first view of a node in service, nor for the status Unknown."""
    event = _EVENTS.get((new.type, new.status))
    if event is None:
        return
    reason, warning = event
    if not warning and (old is None or old.status == "Unknown"):
        return
    yield NodeEvent(
        reason=reason, note=new.message, warning=warning, since=old.since if old else ""
    )
