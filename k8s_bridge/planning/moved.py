"""Workers that moved to another machine while the old one was isolated. Pure.

The isolation belongs to the machine that Slurm drained, not to the worker's name: the old Node keeps it
until that drain ends, and the new one does not get it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import SlurmName
from k8s_bridge.planning.changes import Release
from k8s_bridge.planning.isolation import release
from k8s_bridge.planning.ownership import Origin, same_drain
from k8s_bridge.planning.snapshot import KubeNode


class Moved(NamedTuple):
    """``drained_elsewhere``: the workers whose drain isolates a Node that they have left. ``over``: the
    isolations of left Nodes whose drain has ended."""

    drained_elsewhere: frozenset[SlurmName]
    over: tuple[Release, ...]


def moved(slurm: Sequence[SlurmNode], orphans: Iterable[KubeNode]) -> Moved:
    """``orphans``: the Nodes to which no Slurm node maps."""
    left = [view for view in orphans if view.record and view.record.origin is Origin.SLURM]
    if not left:
        return Moved(frozenset(), ())
    by_name = {node.name: node for node in slurm}
    elsewhere = set()
    over = []
    for view in left:
        record = view.record
        assert record is not None  # noqa: S101 - see above
        node = by_name.get(SlurmName(record.node))
        if node is not None and node.drained_flag and same_drain(node, record):
            elsewhere.add(node.name)
        elif record.node:  # without a name, nothing tells whether its drain has ended
            over.append(release(view, record))
    return Moved(frozenset(elsewhere), tuple(over))
