"""Slurm's nodes, read cheaply: grouped by sinfo at each look, and whole at a full read now and then.

sinfo prints 10,000 equal nodes as one record, but not what each node has for itself: the InstanceId and
the times of its boot and its slurmd. These come from the last full read. Between two looks slurmctld is
only asked how many requests to change a node it has had: a drain is then seen at once.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from holdfast.errors import CommandError, HoldfastError
from holdfast.slurm.client import SlurmClient, SlurmNode
from holdfast.slurm.parse.sdiag import NodeChanges
from holdfast.slurm.topology import Group
from holdfast.vocabulary import NodeState, SlurmName

_S = NodeState
_AWAY = frozenset(
    {
        _S.UNKNOWN, _S.DOWN, _S.NOT_RESPONDING, _S.FUTURE, _S.POWERED_DOWN, _S.POWERING_DOWN,
        _S.POWERING_UP, _S.REBOOT_ISSUED,
    }
)  # fmt: skip
"""States after which a node may return as another machine."""


TOPOLOGY_S = 300.0


class CountingSlurm(SlurmClient, Protocol):
    """A client that also knows how many requests to change a node there were."""

    def node_changes(self) -> NodeChanges:
        """From any user and for any node; not each change is a request. Raises ``CommandError``."""
        ...


class Topology:
    """The leaf switch or block of each node, read now and then. Without an answer the last one counts.

    ``read``: ``None`` where nobody needs it.
    """

    def __init__(
        self,
        read: Callable[[], Sequence[Group]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._read, self._clock = read, clock
        self._read_at = float("-inf")
        self.domains: Mapping[SlurmName, str] = {}
        """The same object until something changes."""

    def refresh(self) -> None:
        """Read it, if that was long ago. Never raises."""
        if self._read is None or self._clock() - self._read_at < TOPOLOGY_S:
            return
        self._read_at = self._clock()
        try:
            groups = self._read()
        except HoldfastError:  # there is none, or it does not answer
            return
        found = {SlurmName(name): group.name for group in groups for name in group.nodes}
        if found != self.domains:
            self.domains = found


class SlurmView:
    """The nodes at each look. A node that is equal to the one of the look before is the same object, and
    without any change so is the list.
    """

    def __init__(
        self,
        slurm: CountingSlurm,
        full_s: float,
        clock: Callable[[], float] = time.monotonic,
    ):
        """``full_s``: the time between two full reads. ``refresh`` makes them; where it is not called in
        twice this time, ``read`` does.
        """
        self._slurm, self._full_s, self._clock = slurm, full_s, clock
        self._full_at = float("-inf")
        self._changes: tuple[int, int] | None = None
        self._countless_until = float("-inf")
        self._whole: dict[SlurmName, SlurmNode] = {}
        self._fast: dict[SlurmName, SlurmNode] = {}
        self._fast_list: list[SlurmNode] = []
        self._nodes: list[SlurmNode] = []

    def read(self) -> list[SlurmNode]:
        """All nodes now. Raises ``CommandError``."""
        now = self._clock()
        if now - self._full_at >= 2 * self._full_s:
            return self._read_whole(now)
        fast = self._slurm.nodes_fast()
        if fast is self._fast_list:
            return self._nodes
        by_name = {node.name: node for node in fast}
        if by_name.keys() != self._whole.keys() or self._returned(by_name):
            return self._read_whole(now)
        # sinfo reports these three of a group; everything else is the node's own.
        merged = {name: self._merged(name, node) for name, node in by_name.items()}
        self._fast, self._fast_list = by_name, fast
        return self._take(merged)

    def refresh(self) -> None:
        """Read everything if it is time for it. Between two looks: it takes ten times as long as ``read``,
        and a drain is not to wait for it. Raises ``CommandError``.
        """
        now = self._clock()
        if now - self._full_at >= self._full_s:
            self._read_whole(now)

    def changed(self) -> bool:
        """Has slurmctld had a request to change a node since this was last asked? A quarter of the cost of a
        look. False also where it does not say: the looks go on as before. Never raises for that.
        """
        if self._clock() < self._countless_until:
            return False
        try:
            found = self._slurm.node_changes()
        except CommandError:
            self._changes, self._countless_until = None, self._clock() + self._full_s
            return False
        before, self._changes = self._changes, (found.counted_since, found.changes)
        return before is not None and before != self._changes

    def _merged(self, name: SlurmName, node: SlurmNode) -> SlurmNode:
        old = self._whole[name]
        known = self._fast.get(name)
        if known is not None and (known is node or known == node):
            return old
        merged = dataclasses.replace(
            old,
            states=node.states,
            unknown_states=node.unknown_states,
            reason=node.reason,
            reason_user=node.reason_user,
            reason_at=node.reason_at,
            comment=node.comment,
        )
        return old if merged == old else merged

    def _returned(self, fast: dict[SlurmName, SlurmNode]) -> bool:
        """Did a node return that was away? It may be another machine now."""
        return any(
            old.states & _AWAY and not fast[name].states & _AWAY
            for name, old in self._whole.items()
        )

    def _read_whole(self, now: float) -> list[SlurmNode]:
        found = {node.name: node for node in self._slurm.nodes()}
        self._full_at = now
        # The next look compares with nothing: sinfo may leave out a node, which is then read whole.
        self._fast, self._fast_list = {}, []
        return self._take(
            {
                name: old if (old := self._whole.get(name)) == node else node
                for name, node in found.items()
            }
        )

    def _take(self, nodes: dict[SlurmName, SlurmNode]) -> list[SlurmNode]:
        same = len(nodes) == len(self._whole) and all(
            self._whole.get(name) is node for name, node in nodes.items()
        )
        self._whole = nodes
        if not same:
            self._nodes = list(nodes.values())
        return self._nodes
