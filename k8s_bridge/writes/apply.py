"""Apply a plan.

First Slurm's groups, each in one write, then the Nodes over several connections, at most two requests for
each. Before each write to one side, the state of the other side that it depends on is read again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.errors import CommandError
from holdfast.slurm.client import SlurmClient
from holdfast.vocabulary import SlurmName
from k8s_bridge.kube.api import Edit, Kube, KubeConflict, KubeFailed, KubeNotFound, KubeRefused
from k8s_bridge.model.changes import (
    Change,
    DrainInSlurm,
    Isolate,
    NodeEvent,
    Release,
    UndrainInSlurm,
    UpdateStatus,
    WriteRecord,
)
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.writes import storm
from k8s_bridge.writes.connections import Beside, Connections
from k8s_bridge.writes.listener import Listener
from k8s_bridge.writes.order import KubeChange, in_order
from k8s_bridge.writes.slurm_writes import SlurmChange, SlurmWrites

log = LimitedLog(Log("bridge"))


class Applier:
    """Writes changes to both sides. ``connections``: requests to the API server at once."""

    def __init__(
        self,
        slurm: SlurmClient,
        kube: Kube,
        actor: str,
        listener: Listener | None = None,
        connections: int = 1,
    ):
        self._kube = kube
        self._listener = listener or Listener()
        self._connections = Connections(connections)
        self._slurm = SlurmWrites(slurm, kube, actor, self._listener, self._connections)
        self._covered: frozenset[storm.Key] = frozenset()

    def apply(
        self,
        changes: Iterable[Change],
        until: float = float("inf"),
        beside: Beside | None = None,
    ) -> int:
        """The number of changes written. One rejected change does not stop the others. No write to a
        Node begins after the monotonic time ``until``: the next plan has the rest. ``beside`` is called
        while Nodes are written (``Connections.run``).

        Raises ``KubeUnavailable`` and ``CommandError`` when a side stops answering, after the writes
        to the other side.
        """
        drains: list[DrainInSlurm] = []
        undrains: list[UndrainInSlurm] = []
        nodes: list[KubeChange] = []
        for change in changes:
            if isinstance(change, DrainInSlurm):
                drains.append(change)
            elif isinstance(change, UndrainInSlurm):
                undrains.append(change)
            else:
                nodes.append(change)
        silent: CommandError | None = None
        written: set[SlurmName] = set()
        try:
            self._slurm.write(drains, undrains, written)
        except CommandError as error:
            silent = error
        # The status that the drains and undrains lead to is written once, by the next plan.
        planned: list[SlurmChange] = [*drains, *undrains]
        changed = {change.kube.name for change in planned if change.slurm.name in written}
        left = [c for c in nodes if not (isinstance(c, UpdateStatus) and c.kube.name in changed)]
        done = len(written) + self._write_nodes(left, until, beside)
        if silent is not None:
            raise silent
        return done

    def _write_nodes(
        self, changes: Sequence[KubeChange], until: float, beside: Beside | None
    ) -> int:
        self._summarize(changes)
        done: list[int] = []
        # In the order of all transitions, also of those that have no Event of their own.
        jobs = (partial(self._write_node, own, done) for own in in_order(changes))
        self._connections.run(jobs, until, beside)
        return sum(done)

    def _write_node(self, own: Sequence[KubeChange], done: list[int]) -> None:
        for change in own:
            if isinstance(change, UpdateStatus) and change.events and self._covered:
                change = self._without_covered(change)
            done.append(self._attempt(change))

    def _summarize(self, changes: Sequence[KubeChange]) -> None:
        """Create the Events that stand for those of many Nodes. They come first: if the bridge is killed
        before the conditions are written, they are created again.
        """
        updates = [change for change in changes if isinstance(change, UpdateStatus)]
        events, covered = storm.summarize(updates, self._covered)
        if events:
            self._create_events(None, events)
        self._covered = covered

    def _without_covered(self, update: UpdateStatus) -> UpdateStatus:
        left = tuple(e for e in update.events if storm.key_of(update, e) not in self._covered)
        return update if left == update.events else dataclasses.replace(update, events=left)

    def _attempt(self, change: KubeChange) -> int:
        try:
            self._write_kube(change)
        except (KubeConflict, KubeNotFound) as error:
            log.info("change postponed to the next plan", node=change.kube.name, why=error)
            self._listener.failed(change, error)
            return 0
        except KubeRefused as error:
            log.error(
                "change rejected", node=change.kube.name, change=type(change).__name__, why=error
            )
            self._listener.failed(change, error)
            return 0
        except KubeFailed as error:
            log.warning("write failed", node=change.kube.name, why=error)
            self._listener.failed(change, error)
            return 0
        self._listener.wrote(type(change), 1)
        return 1

    def _write_kube(self, change: KubeChange) -> None:
        match change:
            case Isolate(cordon=cordon, taint=taint, record=record):
                self._edit(
                    change.kube, Edit(unschedulable=cordon or None, taint=taint, record=record)
                )
            case Release(uncordon=uncordon, untaint=untaint):
                self._edit(
                    change.kube,
                    Edit(unschedulable=False if uncordon else None, untaint=untaint, forget=True),
                )
            case WriteRecord(record=record):
                self._edit(change.kube, Edit(record=record, forget=record is None))
            case UpdateStatus():
                self._status_update(change)

    def _edit(self, planned: KubeNode, edit: Edit) -> None:
        """Write only to a Node that has not changed since the decision."""

        def decide(fresh: KubeNode) -> Edit | None:
            return edit if fresh.facts == planned.facts else None

        self._listener.seen(self._kube.edit(self._listener.known(planned.name) or planned, decide))

    def _status_update(self, update: UpdateStatus) -> None:
        # The Event first: if the bridge is killed before the condition is written, it creates the same
        # Event (same name) again.
        if update.events:
            self._create_events(update.kube, update.events)
        if update.conditions or update.label is not None:
            self._listener.seen(
                self._kube.patch_status(update.kube.name, update.conditions, update.label)
            )

    def _create_events(self, node: KubeNode | None, events: Iterable[NodeEvent]) -> None:
        try:
            self._kube.create_events(node, events)
        except (KubeRefused, KubeFailed) as error:  # the conditions are correct without it
            log.error("Event rejected", node=node.name if node else "", why=error)
