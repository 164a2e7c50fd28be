"""Workers that moved to another machine while the old one was isolated or drained. Pure.

The isolation belongs to the machine that Slurm drained, not to the worker's name: the old Node keeps it
until that drain ends, and the new one does not get it. The bridge's own drain belongs to its Node too: once
Slurm has appended to the reason, only the record on the old Node proves whose it is, so the record moves to
the new Node, where nothing calls for the drain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import KubeName, SlurmName
from k8s_bridge.model.changes import Release, WriteRecord
from k8s_bridge.model.ownership import BridgeRecord, Origin, same_drain
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.planning.isolation import release

Pairs = Mapping[KubeName, tuple[SlurmNode | None, KubeNode]]


class Moved(NamedTuple):
    """``drained_elsewhere``: the workers whose drain belongs to a Node that they have left. ``changes``:
    isolations of left Nodes whose drain has ended, and records that follow their worker."""

    drained_elsewhere: frozenset[SlurmName]
    changes: tuple[Release | WriteRecord, ...]


def moved(
    slurm: Sequence[SlurmNode],
    orphans: Sequence[KubeNode],
    pairs: Pairs,
    proven: Mapping[SlurmName, BridgeRecord],
    actor: str,
) -> Moved:
    """``orphans``: the Nodes to which no Slurm node maps. ``pairs``: the others, each with its Slurm node.
    ``proven``: the bridge's own drains, as an earlier look proved them."""
    left = [view for view in orphans if view.record is not None]
    if not left and not proven:
        return Moved(frozenset(), ())
    by_name = {node.name: node for node in slurm}
    homes = {node.name: view for node, view in pairs.values() if node is not None}
    elsewhere: set[SlurmName] = set()
    changes: list[Release | WriteRecord] = []
    records = dict(proven)
    for view in left:
        record = view.record
        assert record is not None  # noqa: S101 - see above
        name = SlurmName(record.node)
        node = by_name.get(name)
        still = node is not None and node.drained_flag and same_drain(node, record)
        if record.origin is Origin.KUBERNETES:
            if still:
                records[name] = record
            elif name in homes:  # it runs elsewhere; until then, what a person decided is kept
                changes.append(WriteRecord(kube=view, record=None))
        elif still:
            elsewhere.add(name)
        elif record.node:  # without a name, nothing tells whether its drain has ended
            changes.append(release(view, record))
    for name, record in records.items():
        home = homes.get(name)
        if home is not None and _follows(by_name[name], home, record, actor):
            changes.append(WriteRecord(kube=home, record=record))
            elsewhere.add(name)
    return Moved(frozenset(elsewhere), tuple(changes))


def _follows(node: SlurmNode, view: KubeNode, record: BridgeRecord, actor: str) -> bool:
    """Does the Node ``view``, on which the worker runs now, need the record? Not where user and time are
    still those of the drain."""
    if view.gone or view.record is not None or not node.drained_flag:
        return False
    return node.reason != record.reason and record.by == actor and same_drain(node, record)
