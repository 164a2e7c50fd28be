"""When the Node of a Slurm node is cordoned and tainted, and when that ends. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState
from k8s_bridge.model.changes import Change, Isolate, Release, WriteRecord
from k8s_bridge.model.ownership import BridgeRecord, Origin, same_drain
from k8s_bridge.model.snapshot import KubeNode, is_own_cordon
from k8s_bridge.state_table import Isolation

_STATE = "state "


def for_drain(
    node: SlurmNode, view: KubeNode, value: str, *, cordon: bool, taint: bool
) -> Iterator[Change]:
    """Isolate the Node for the drain that the node has now. ``value``: of the taint."""
    record = view.record
    mirrored = record if record and record.origin is Origin.SLURM else None
    # Isolated for this drain already: what a person has taken back since stays so.
    if mirrored and same_drain(node, mirrored):
        yield from _kept(view, mirrored, value)
        return
    yield from _isolated(
        view, BridgeRecord.of(node, Origin.SLURM), value, cordon=cordon, taint=taint
    )


def for_state(view: KubeNode, state: NodeState, wanted: Isolation) -> Iterator[Change]:
    """Isolate the Node because policy says so for ``state``. What another cause had isolated is released
    first: the two may isolate it in different ways. Not where the record says that a person undrained the
    node in spite of a cordon or a rule: that would be lost."""
    record = view.record
    if record and record.origin is Origin.KUBERNETES:
        return
    cause = state_cause(state)
    if record and record.origin is Origin.SLURM:
        same = is_state_record(record) and record.reason == cause.reason
        yield from _kept(view, record, state.value) if same else iter((release(view, record),))
        return
    cordon = wanted is Isolation.CORDON
    yield from _isolated(view, cause, state.value, cordon=cordon, taint=True)


def state_cause(state: NodeState) -> BridgeRecord:
    """The record of an isolation for ``state``, without what was isolated."""
    return BridgeRecord(origin=Origin.SLURM, reason=f"{_STATE}{state.value}")


def is_state_record(record: BridgeRecord) -> bool:
    """Is it about a state, not about a drain? A drain has a user and a time."""
    return record.origin is Origin.SLURM and record.reason.startswith(_STATE) and record.at is None


def _kept(view: KubeNode, record: BridgeRecord, value: str) -> Iterator[Change]:
    """Somebody undid it or changed it manually: it stays so until the next cause."""
    kept = replace(
        record,
        cordon=record.cordon and is_own_cordon(view),
        taint=record.taint and view.taint == value,
    )
    if kept != record:
        yield WriteRecord(kube=view, record=kept)


def _isolated(
    view: KubeNode, cause: BridgeRecord, value: str, *, cordon: bool, taint: bool
) -> Iterator[Change]:
    record = view.record
    mirrored = record if record and record.origin is Origin.SLURM else None
    # A taint of the same key that somebody else set stays theirs.
    own_taint = mirrored is not None and mirrored.taint and view.taint is not None
    may_taint = taint and (own_taint or view.taint is None)
    new_cordon = cordon and not view.unschedulable
    wanted = replace(cause, cordon=new_cordon or is_own_cordon(view), taint=may_taint or own_taint)
    if wanted.cordon or wanted.taint:
        new_taint = value if may_taint and view.taint != value else None
        yield Isolate(kube=view, cordon=new_cordon, taint=new_taint, record=wanted)
    elif record:
        yield WriteRecord(kube=view, record=None)


def release(view: KubeNode, record: BridgeRecord) -> Release:
    """The end of the isolation that ``record`` is about, as far as nobody has changed it since."""
    return Release(
        kube=view,
        uncordon=record.cordon and is_own_cordon(view),
        untaint=record.taint and view.taint is not None,
    )
