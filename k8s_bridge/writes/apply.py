"""Apply a plan.

First Slurm's groups, each in one write, then the Nodes over several connections, at most two requests for
each. Before each write to one side, the state of the other side that it depends on is read again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.errors import CommandError, HoldfastError, Refused
from holdfast.slurm.client import SlurmClient, SlurmNode
from holdfast.slurm.hostlist import compress
from holdfast.vocabulary import KubeName, SlurmName
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
from k8s_bridge.model.ownership import is_cordon_drain, may_overwrite_reason
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.writes import storm
from k8s_bridge.writes.connections import Beside, Connections
from k8s_bridge.writes.order import KubeChange, in_order

log = LimitedLog(Log("bridge"))

GROUP = 1000
"""The maximum number of nodes in one write to Slurm: a hostlist is one argument, of 128 KiB at most."""

OnRefusal = Callable[[SlurmName, Refused], None]
SlurmChange = DrainInSlurm | UndrainInSlurm


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """What the applier tells and asks, also on several threads at once."""

    known: Callable[[KubeName], KubeNode | None] = _nothing
    """The last known view of a Node."""
    seen: Callable[[KubeNode], None] = _nothing
    """A Node after a write."""
    failed: Callable[[Change, HoldfastError], None] = _nothing
    """A change that was rejected or came too late."""
    wrote: Callable[[type[Change], int], None] = _nothing
    """The kind and the number of changes written."""


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
        self._slurm, self._kube, self._actor = slurm, kube, actor
        self._listener = listener or Listener()
        self._connections = Connections(connections)
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
            self._write_slurm(drains, undrains, written)
        except CommandError as error:
            silent = error
        # What the drains and undrains changed is told once, by the next plan.
        planned: list[SlurmChange] = [*drains, *undrains]
        changed = {change.kube.name for change in planned if change.slurm.name in written}
        left = [c for c in nodes if not (isinstance(c, UpdateStatus) and c.kube.name in changed)]
        done = len(written) + self._write_nodes(left, until, beside)
        if silent is not None:
            raise silent
        return done

    # --- Kubernetes ----------------------------------------------------------------------------

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

    # --- Slurm ---------------------------------------------------------------------------------

    def _write_slurm(
        self,
        drains: Sequence[DrainInSlurm],
        undrains: Sequence[UndrainInSlurm],
        written: set[SlurmName],
    ) -> None:
        changes: dict[SlurmName, SlurmChange] = {}
        changes |= {change.slurm.name: change for change in drains}
        changes |= {change.slurm.name: change for change in undrains}

        def refused(name: SlurmName, error: Refused) -> None:
            log.error("change rejected", node=name, change=type(changes[name]).__name__, why=error)
            self._listener.failed(changes[name], error)

        for reason, group in _drains_grouped(drains):
            drained = self._drain(group, reason, refused)
            self._listener.wrote(DrainInSlurm, len(drained))
            written.update(drained)
        for some in _grouped(undrains):
            undrained = self._undrain(some, refused)
            self._listener.wrote(UndrainInSlurm, len(undrained))
            written.update(undrained)

    def _still_valid(self, changes: Sequence[SlurmChange]) -> dict[SlurmName, KubeNode]:
        """The present Nodes of those changes that still apply: nothing is written to Slurm on an outdated
        view, or without an answer.
        """
        names: dict[SlurmName, KubeNode] = {}

        def read(change: SlurmChange) -> None:
            fresh: KubeNode | None
            try:
                fresh = self._kube.node(change.kube.name)
            except KubeNotFound as error:
                fresh = None
                if not change.holds(None):
                    self._listener.failed(change, error)
            except (KubeRefused, KubeFailed) as error:
                log.warning("Node cannot be read", node=change.kube.name, why=error)
                self._listener.failed(change, error)
                return
            if change.holds(fresh):
                names[change.slurm.name] = fresh or change.kube

        self._connections.run(partial(read, change) for change in changes)
        return names

    def _drain(
        self,
        changes: Sequence[SlurmChange],
        reason: Callable[[datetime], str],
        refused: OnRefusal,
    ) -> list[SlurmName]:
        names = self._matching(
            changes,
            self._still_valid(changes),
            lambda node: not node.drained_flag and may_overwrite_reason(node),
        )
        if not names:
            return []
        text = reason(self._slurm.clock())
        log.info("drain in Slurm", nodes=compress(names), reason=text)
        return _one_by_one_if_refused(lambda some: self._slurm.drain(some, text), names, refused)

    def _undrain(self, changes: Sequence[SlurmChange], refused: OnRefusal) -> list[SlurmName]:
        views = self._still_valid(changes)
        names = self._matching(
            changes, views, lambda node: is_cordon_drain(node, views[node.name].record, self._actor)
        )
        if not names:
            return []
        log.info("undrain in Slurm: what it was drained for is gone", nodes=compress(names))
        return _one_by_one_if_refused(self._slurm.undrain, names, refused)

    def _matching(
        self,
        changes: Sequence[SlurmChange],
        views: dict[SlurmName, KubeNode],
        holds: Callable[[SlurmNode], bool],
    ) -> list[SlurmName]:
        """Slurm has no compare-and-set: read the nodes, then write immediately. A node that runs on
        another machine than in the plan is left to the next plan.
        """
        if not views:
            return []
        planned = {change.slurm.name: change.slurm.instance_id for change in changes}
        return [
            node.name
            for node in self._slurm.nodes(list(views))
            if node.name in views and node.instance_id == planned[node.name] and holds(node)
        ]


def _drains_grouped(
    drains: Sequence[DrainInSlurm],
) -> Iterator[tuple[Callable[[datetime], str], Sequence[SlurmChange]]]:
    """The drains with equal reasons, in groups for one write each."""
    for rule in dict.fromkeys(change.rule for change in drains):
        same = [change for change in drains if change.rule == rule]
        for group in _grouped(same):
            yield same[0].reason, group


def _grouped(changes: Sequence[SlurmChange]) -> Iterable[Sequence[SlurmChange]]:
    for start in range(0, len(changes), GROUP):
        yield changes[start : start + GROUP]


def _one_by_one_if_refused(
    write: Callable[[Sequence[SlurmName]], None], names: Sequence[SlurmName], refused: OnRefusal
) -> list[SlurmName]:
    """One write for all nodes; returns those written. A rejected write may have changed some of them:
    then one write each.
    """
    try:
        write(names)
    except Refused as error:
        if len(names) == 1:
            refused(names[0], error)
            return []
        return [done for name in names for done in _one_by_one_if_refused(write, [name], refused)]
    return list(names)
