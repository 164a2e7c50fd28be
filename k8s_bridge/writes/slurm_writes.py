"""The writes to Slurm: drains and undrains in groups, each group in one write.

Slurm has no compare-and-set. Before a write, the Nodes that it depends on and the nodes themselves are read
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.errors import Refused
from holdfast.slurm.client import SlurmClient, SlurmNode
from holdfast.slurm.hostlist import compress
from holdfast.vocabulary import SlurmName
from k8s_bridge.kube.api import Kube, KubeFailed, KubeNotFound, KubeRefused
from k8s_bridge.model.changes import DrainInSlurm, UndrainInSlurm
from k8s_bridge.model.ownership import is_cordon_drain, may_overwrite_reason
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.writes.connections import Connections
from k8s_bridge.writes.listener import Listener

log = LimitedLog(Log("bridge"))

GROUP = 1000
"""The maximum number of nodes in one write to Slurm: a hostlist is one argument, of 128 KiB at most."""

OnRefusal = Callable[[SlurmName, Refused], None]
SlurmChange = DrainInSlurm | UndrainInSlurm


class SlurmWrites:
    """``actor``: the Slurm user of the bridge. ``connections``: for the Nodes that are read again."""

    def __init__(
        self,
        slurm: SlurmClient,
        kube: Kube,
        actor: str,
        listener: Listener,
        connections: Connections,
    ):
        self._slurm, self._kube, self._actor = slurm, kube, actor
        self._listener, self._connections = listener, connections

    def write(
        self,
        drains: Sequence[DrainInSlurm],
        undrains: Sequence[UndrainInSlurm],
        written: set[SlurmName],
    ) -> None:
        """Adds the nodes that are written to ``written``. One rejected change does not stop the others.

        Raises ``CommandError`` or ``KubeUnavailable`` when a side stops answering.
        """
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
                # A deleted Node is what some drains are for.
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
        # slurmctld's clock: the agents compare this time with others of slurmctld.
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
            # Another instance: the fault was that of a machine that is gone.
            if node.name in views and node.instance_id == planned[node.name] and holds(node)
        ]


def _drains_grouped(
    drains: Sequence[DrainInSlurm],
) -> Iterator[tuple[Callable[[datetime], str], Sequence[SlurmChange]]]:
    """The drains with equal reasons, in groups for one write each."""
    for cause in dict.fromkeys(change.cause for change in drains):
        same = [change for change in drains if change.cause == cause]
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
