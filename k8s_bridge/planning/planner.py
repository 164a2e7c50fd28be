"""Plans again only for the nodes of which a side changed since the last plan. Pure but for its memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import KubeName, SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.changes import Change, Isolate, UpdateStatus
from k8s_bridge.model.node_mapping import NodeMapping, map_nodes
from k8s_bridge.model.ownership import BridgeRecord, is_cordon_drain, recorded
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.planning.moved import moved
from k8s_bridge.planning.plan import plan


class Planner:
    """``plan``, with the changes of unchanged nodes from the plan before.

    An unchanged node is the same object as before, on both sides. The changes that ``plan`` makes for a
    node depend on that node alone; what depends on others, ``moved``, is added to each plan.
    """

    def __init__(self, policy: BridgeConfig):
        self._policy = policy
        self._slurm: Sequence[SlurmNode] | None = None
        self._kube: Sequence[KubeNode] | None = None
        self.mapping = NodeMapping([], [], [])
        """The mapping of the last plan."""
        self._seen: dict[KubeName, tuple[SlurmNode | None, KubeNode]] = {}
        self._own: dict[KubeName, list[Change]] = {}
        self._changes: list[Change] = []
        self._proven: dict[SlurmName, BridgeRecord] = {}

    def plan(
        self, slurm: Sequence[SlurmNode], kube: Sequence[KubeNode], now: datetime
    ) -> list[Change]:
        """As ``plan``: actions first, then transitions. The changes that the former plan had too keep its
        time. Nothing is planned while both lists are those of the last plan.
        """
        if slurm is not self._slurm or kube is not self._kube:
            self._plan(slurm, kube, now)
            self._slurm, self._kube = slurm, kube
        return self._changes

    def _plan(self, slurm: Sequence[SlurmNode], kube: Sequence[KubeNode], now: datetime) -> None:
        self.mapping = map_nodes(slurm, kube, self._policy)
        seen: dict[KubeName, tuple[SlurmNode | None, KubeNode]] = {
            view.name: (None, view) for view in self.mapping.orphans
        }
        seen |= {view.name: (node, view) for node, view in self.mapping.pairs}
        changed = {
            name: pair for name, pair in seen.items() if not _same(pair, self._seen.get(name))
        }
        for name in (self._own.keys() - seen.keys()) | changed.keys():
            self._own.pop(name, None)
        self._prove(slurm, changed.values())
        nodes = [node for node, _ in changed.values() if node is not None]
        for change in plan(nodes, [view for _, view in changed.values()], self._policy, now):
            name = change.kube.name
            if isinstance(change, UpdateStatus):
                change = dataclasses.replace(change, slurm=changed[name][0])
            self._own.setdefault(name, []).append(change)
        self._seen = seen
        self._changes = self._all(slurm)

    def _prove(
        self, slurm: Sequence[SlurmNode], changed: Iterable[tuple[SlurmNode | None, KubeNode]]
    ) -> None:
        """Remember the bridge's own drains: a Node that is deleted takes its record with it, and Slurm may
        then replace user and time. A restarted bridge leaves such a drain to a person."""
        for node, view in changed:
            if node is None or not node.drained_flag:
                continue
            if is_cordon_drain(node, view.record, self._policy.slurm_user):
                self._proven[node.name] = recorded(node, view.record)
        if self._proven:
            drained = {node.name for node in slurm if node.drained_flag}
            self._proven = {name: row for name, row in self._proven.items() if name in drained}

    def _all(self, slurm: Sequence[SlurmNode]) -> list[Change]:
        elsewhere, followed = moved(
            slurm, self.mapping.orphans, self._seen, self._proven, self._policy.slurm_user
        )
        changes: list[Change] = [*followed]
        for name, own in self._own.items():
            node, _ = self._seen[name]
            kept = node is not None and node.name in elsewhere
            changes += [change for change in own if not (kept and isinstance(change, Isolate))]
        changes.sort(key=_rank)
        return changes


def _same(
    pair: tuple[SlurmNode | None, KubeNode], before: tuple[SlurmNode | None, KubeNode] | None
) -> bool:
    return before is not None and pair[0] is before[0] and pair[1] is before[1]


def _rank(change: Change) -> int:
    if not isinstance(change, UpdateStatus):
        return 0
    return 1 if change.events else 2
