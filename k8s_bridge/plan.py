"""What must change so that Slurm and Kubernetes tell the same story. Pure: values in, values out.

Rules (design: a mirror is never a source):

* Holdfast's own drain in Slurm → cordon and taint, by policy; undone when the drain is gone and
  only what we set.
* A cordon that is not ours → drain in Slurm; undone when the cordon is gone and only if the drain
  is ours.
* A person's drain, cordon, uncordon or undrain stands: it is told (conditions), never answered by
  an action.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState
from k8s_bridge import conditions
from k8s_bridge.config import BridgeConfig
from k8s_bridge.names import DRAINED, FIELD_MANAGER, KUBE_CORDON, READY
from k8s_bridge.node_mapping import join
from k8s_bridge.ownership import Origin, Record, is_cordon_drain, may_take, same_drain
from k8s_bridge.snapshot import Condition, KubeNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """One Event about a Node.

    ``since`` dates the state that ends, and makes the Event's name the same if re-sent.
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
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Undo what ``Isolate`` did, as far as it is still ours, and drop the record, in one write."""

    kube: KubeNode
    uncordon: bool
    untaint: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """Write the record, or drop it (``None``)."""

    kube: KubeNode
    record: Record | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainInSlurm:
    """Drain the Slurm node because somebody cordoned its Node."""

    slurm: SlurmNode
    kube: KubeNode


@dataclass(frozen=True, slots=True, kw_only=True)
class UndrainInSlurm:
    """Give the Slurm node back: the cordon is gone and the drain is ours."""

    slurm: SlurmNode
    kube: KubeNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Write our conditions (those that changed) and label (``None``: unchanged), and announce
    transitions.
    """

    kube: KubeNode
    conditions: tuple[Condition, ...]
    label: str | None
    announcements: tuple[Announcement, ...]


Change = Isolate | Release | Remember | DrainInSlurm | UndrainInSlurm | Tell


def plan(
    slurm: Sequence[SlurmNode], kube: Sequence[KubeNode], policy: BridgeConfig, now: datetime
) -> list[Change]:
    """All changes, the urgent ones first.

    ``now`` only dates conditions; no decision rests on a clock.
    """
    joined = join(slurm, kube, policy)
    actions: list[Change] = []
    tellings: list[Tell] = []
    for node, view in joined.pairs:
        actions += _actions(node, view, policy)
        withheld = _withheld(node, view, policy)
        tellings += _tell(view, conditions.conditions(node, withheld), conditions.label(node), now)
    for view in joined.orphans:
        if view.conditions:
            tellings += _tell(
                view,
                conditions.unknown(conditions.NOT_IN_SLURM, "Slurm does not know this node"),
                "unknown",
                now,
            )
    tellings.sort(key=lambda telling: not telling.announcements)
    return [*actions, *tellings]


def plan_unreadable(kube: Sequence[KubeNode], now: datetime, why: str) -> list[Change]:
    """Slurm cannot be read: what we said of it is no longer known.

    No action follows from silence.
    """
    unknown = conditions.unknown(conditions.UNREADABLE, why)
    return [
        tell for view in kube if view.conditions for tell in _tell(view, unknown, "unknown", now)
    ]


def _actions(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Iterator[Change]:
    if not node.states or node.states & {NodeState.UNKNOWN, NodeState.FUTURE}:
        return
    mirrored = view.record is not None and view.record.origin is Origin.SLURM
    if node.drained_flag:
        yield from _when_drained(node, view, policy)
    elif mirrored and node.states & {NodeState.MAINTENANCE, NodeState.FAIL}:
        # Undrained inside a reservation, for a test or a repair, or failed by a person, which takes the
        # DRAIN flag off: it is not back in service yet.
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
        # Somebody drained on top of ours: from now on it is theirs.
        yield Remember(kube=view, record=None)


def _when_drained_by_cordon(node: SlurmNode, view: KubeNode) -> Iterator[Change]:
    record = view.record
    if not view.unschedulable:
        yield UndrainInSlurm(slurm=node, kube=view)
        return
    if record and record.origin is Origin.SLURM:
        # An older fault's mirror: the fault is gone, and this drain takes its place.
        yield _release(view, record)
    elif record is None or not same_drain(node, record):
        yield Remember(kube=view, record=Record.of(node, Origin.KUBERNETES))


def _when_drained_by_holdfast(
    node: SlurmNode, view: KubeNode, reason: Reason, policy: BridgeConfig
) -> Iterator[Change]:
    record = view.record
    mirrored = record if record and record.origin is Origin.SLURM else None
    if mirrored and same_drain(node, mirrored):
        kept = replace(
            mirrored,
            cordon=mirrored.cordon and _cordon_is_ours(view),
            taint=mirrored.taint and view.taint == reason.code,
        )
        if kept != mirrored:
            # Somebody undid it or took it over by hand. So be it, until the next drain.
            yield Remember(kube=view, record=kept)
        return
    taint_is_ours = mirrored is not None and mirrored.taint and view.taint is not None
    may_taint = policy.taint and (taint_is_ours or view.taint is None)
    cordon = policy.cordon and not view.unschedulable
    wanted = Record.of(
        node, Origin.SLURM, cordon=cordon or _cordon_is_ours(view), taint=may_taint or taint_is_ours
    )
    if wanted.cordon or wanted.taint:
        taint = reason.code if may_taint and view.taint != reason.code else None
        yield Isolate(kube=view, cordon=cordon, taint=taint, record=wanted)
    elif record:
        yield Remember(kube=view, record=None)


def _when_in_service(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> Iterator[Change]:
    record = view.record
    if record and record.origin is Origin.SLURM:
        yield _release(view, record)
    if not is_cordoned_by_others(view):
        if record and record.origin is Origin.KUBERNETES:
            yield Remember(kube=view, record=None)
    elif policy.drain_on_cordon and asks_for_drain(view) and may_take(node):
        yield DrainInSlurm(slurm=node, kube=view)


def asks_for_drain(view: KubeNode) -> bool:
    """A cordon of others that has not led to a drain yet.

    Once it has, and the drain is gone while the cordon stands, somebody lifted it and meant it.
    """
    drained_before = view.record is not None and view.record.origin is Origin.KUBERNETES
    return is_cordoned_by_others(view) and not drained_before


def _withheld(node: SlurmNode, view: KubeNode, policy: BridgeConfig) -> str:
    """Why a cordon is not followed by a drain; empty when it is, or there is nothing to follow."""
    if node.drained_flag or not policy.drain_on_cordon or not is_cordoned_by_others(view):
        return ""
    if not asks_for_drain(view):
        return "undrained in Slurm while cordoned: in service until it is cordoned anew"
    kept = f"not drained for the cordon, to keep the words in Slurm's reason: {node.reason}"
    return "" if may_take(node) else kept


def _release(view: KubeNode, record: Record) -> Release:
    return Release(
        kube=view,
        uncordon=record.cordon and _cordon_is_ours(view),
        untaint=record.taint and view.taint is not None,
    )


def _cordon_is_ours(view: KubeNode) -> bool:
    """By record and, where the API server kept it, by who wrote the field."""
    record = view.record
    recorded = record is not None and record.origin is Origin.SLURM and record.cordon
    return view.unschedulable and recorded and view.cordoned_by in ("", FIELD_MANAGER)


def is_cordoned_by_others(view: KubeNode) -> bool:
    """True for a cordon that is a source: not the mirror of a drain in Slurm."""
    return view.unschedulable and not _cordon_is_ours(view) and view.cordoned_by != FIELD_MANAGER


def _tell(
    view: KubeNode, wanted: tuple[Condition, ...], label: str, now: datetime
) -> Iterator[Tell]:
    changed = []
    announced: list[Announcement] = []
    stamp = f"{now.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    for condition in wanted:
        old = view.conditions.get(condition.type)
        if condition.says_the_same(old):
            continue
        kept = old is not None and old.status == condition.status
        changed.append(replace(condition, since=old.since if old and kept else stamp))
        if not kept:
            announced += _announce(condition, old)
    if changed or view.label != label:
        yield Tell(
            kube=view,
            conditions=tuple(changed),
            label=label if view.label != label else None,
            announcements=tuple(announced),
        )


# (condition, new status) → Event reason, and whether it is a warning. Busy comes and goes with
# jobs: no Event.
_EVENTS = {
    (DRAINED, "True"): ("SlurmDrained", True),
    (DRAINED, "False"): ("SlurmUndrained", False),
    (READY, "True"): ("SlurmReady", False),
    (READY, "False"): ("SlurmNotReady", True),
}


def _announce(new: Condition, old: Condition | None) -> Iterator[Announcement]:
    """First sight of a node in service, and not knowing, are no news."""
    event = _EVENTS.get((new.type, new.status))
    if event is None:
        return
    reason, warning = event
    if not warning and (old is None or old.status == "Unknown"):
        return
    yield Announcement(
        reason=reason, note=new.message, warning=warning, since=old.since if old else ""
    )
