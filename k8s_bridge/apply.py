"""Apply a plan.

Before each write to one side, the state of the other side that it depends on is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.errors import HoldfastError, Refused
from holdfast.slurm.client import SlurmClient, SlurmNode
from holdfast.vocabulary import SlurmName
from k8s_bridge.kube.api import Edit, Kube, KubeConflict, KubeNotFound, KubeRefused
from k8s_bridge.planning.ownership import is_cordon_drain, may_overwrite_reason
from k8s_bridge.planning.plan import (
    Change,
    DrainInSlurm,
    Isolate,
    Release,
    UndrainInSlurm,
    UpdateStatus,
    WriteRecord,
)
from k8s_bridge.planning.snapshot import KubeNode

log = LimitedLog(Log("bridge"))

GROUP = 1000
"""The maximum number of nodes in one write to Slurm."""

OnRefusal = Callable[[SlurmName, Refused], None]


class Applier:
    """Writes changes to both sides.

    ``seen`` receives each Node after a write, ``failed`` each change that was rejected or that came too
    late, with the error, and ``wrote`` the kind and the number of changes written.
    """

    def __init__(
        self,
        slurm: SlurmClient,
        kube: Kube,
        actor: str,
        seen: Callable[[KubeNode], None] = lambda _: None,
        failed: Callable[[Change, HoldfastError], None] = lambda *_: None,
        wrote: Callable[[type[Change], int], None] = lambda *_: None,
    ):  # fmt: skip
        self._slurm, self._kube, self._actor, self._seen = slurm, kube, actor, seen
        self._failed, self._wrote = failed, wrote

    def apply(self, changes: Iterable[Change]) -> int:
        """The number of changes written. One rejected change does not stop the others.

        Raises ``KubeUnavailable`` and ``Unavailable`` when a side stops answering: the next plan
        contains the remaining changes.
        """
        drains: list[DrainInSlurm] = []
        undrains: list[UndrainInSlurm] = []
        done = 0
        for change in changes:
            if isinstance(change, DrainInSlurm):
                drains.append(change)
            elif isinstance(change, UndrainInSlurm):
                undrains.append(change)
            else:
                # Actions precede status updates in a plan; so do the writes to Slurm.
                if isinstance(change, UpdateStatus):
                    done += self._write_slurm(drains, undrains)
                    drains, undrains = [], []
                done += self._attempt(change)
        return done + self._write_slurm(drains, undrains)

    def _attempt(self, change: Isolate | Release | WriteRecord | UpdateStatus) -> int:
        try:
            self._write_kube(change)
        except (KubeConflict, KubeNotFound) as error:
            log.info("change postponed to the next plan", node=change.kube.name, why=error)
            self._failed(change, error)
            return 0
        except KubeRefused as error:
            log.error(
                "change rejected", node=change.kube.name, change=type(change).__name__, why=error
            )
            self._failed(change, error)
            return 0
        self._wrote(type(change), 1)
        return 1

    def _write_kube(self, change: Isolate | Release | WriteRecord | UpdateStatus) -> None:
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

        self._seen(self._kube.edit(planned.name, decide))

    def _status_update(self, update: UpdateStatus) -> None:
        # The Event first: if the bridge is killed before the condition is written, it creates the same
        # Event (same name) again.
        try:
            self._kube.create_events(update.kube, update.events)
        except KubeRefused as error:  # the conditions are correct without it
            log.error("Event rejected", node=update.kube.name, why=error)
        if update.conditions:
            self._seen(self._kube.patch_conditions(update.kube.name, update.conditions))
        if update.label is not None:
            self._seen(self._kube.patch_label(update.kube.name, update.label))

    def _write_slurm(
        self, drains: Sequence[DrainInSlurm], undrains: Sequence[UndrainInSlurm]
    ) -> int:
        done = 0
        changes: dict[SlurmName, DrainInSlurm | UndrainInSlurm] = {}
        changes |= {change.slurm.name: change for change in drains}
        changes |= {change.slurm.name: change for change in undrains}

        def refused(name: SlurmName, error: Refused) -> None:
            log.error("change rejected", node=name, change=type(changes[name]).__name__, why=error)
            self._failed(changes[name], error)

        for reason, group in _drains_grouped(drains):
            drained = self._drain(self._still_valid(group), reason, refused)
            self._wrote(DrainInSlurm, drained)
            done += drained
        for some in _grouped(undrains):
            undrained = self._undrain(self._still_valid(some), refused)
            self._wrote(UndrainInSlurm, undrained)
            done += undrained
        return done

    def _still_valid(
        self, changes: Sequence[DrainInSlurm | UndrainInSlurm]
    ) -> dict[SlurmName, KubeNode]:
        """The present Nodes of those changes that still apply: nothing is written to Slurm on an outdated
        view, or without an answer.
        """
        names: dict[SlurmName, KubeNode] = {}
        for change in changes:
            try:
                fresh: KubeNode | None = self._kube.node(change.kube.name)
            except KubeNotFound as error:
                fresh = None
                if not change.holds(None):
                    self._failed(change, error)
            except KubeRefused as error:
                log.warning("Node cannot be read", node=change.kube.name, why=error)
                self._failed(change, error)
                continue
            if change.holds(fresh):
                names[change.slurm.name] = fresh or change.kube
        return names

    def _drain(
        self,
        views: dict[SlurmName, KubeNode],
        reason: Callable[[datetime], str],
        refused: OnRefusal,
    ) -> int:
        names = self._matching(
            views, lambda node: not node.drained_flag and may_overwrite_reason(node)
        )
        if not names:
            return 0
        text = reason(self._slurm.clock())
        log.info("drain in Slurm", nodes=",".join(names), reason=text)
        return _one_by_one_if_refused(lambda some: self._slurm.drain(some, text), names, refused)

    def _undrain(self, views: dict[SlurmName, KubeNode], refused: OnRefusal) -> int:
        names = self._matching(
            views, lambda node: is_cordon_drain(node, views[node.name].record, self._actor)
        )
        if not names:
            return 0
        log.info("undrain in Slurm: what it was drained for is gone", nodes=",".join(names))
        return _one_by_one_if_refused(self._slurm.undrain, names, refused)

    def _matching(
        self, views: dict[SlurmName, KubeNode], holds: Callable[[SlurmNode], bool]
    ) -> list[SlurmName]:
        """Slurm has no compare-and-set: read the nodes, then write immediately."""
        if not views:
            return []
        return [
            node.name
            for node in self._slurm.nodes(list(views))
            if node.name in views and holds(node)
        ]


def _drains_grouped(
    drains: Sequence[DrainInSlurm],
) -> Iterator[tuple[Callable[[datetime], str], Sequence[DrainInSlurm | UndrainInSlurm]]]:
    """The drains with equal reasons, in groups for one write each."""
    for rule in dict.fromkeys(change.rule for change in drains):
        same = [change for change in drains if change.rule == rule]
        for group in _grouped(same):
            yield same[0].reason, group


def _grouped(
    changes: Sequence[DrainInSlurm] | Sequence[UndrainInSlurm],
) -> Iterable[Sequence[DrainInSlurm | UndrainInSlurm]]:
    for start in range(0, len(changes), GROUP):
        yield changes[start : start + GROUP]


def _one_by_one_if_refused(
    write: Callable[[Sequence[SlurmName]], None], names: Sequence[SlurmName], refused: OnRefusal
) -> int:
    """One write for all nodes. A rejected write may have changed some of them: then one write each."""
    try:
        write(names)
    except Refused as error:
        if len(names) == 1:
            refused(names[0], error)
            return 0
        return sum(_one_by_one_if_refused(write, [name], refused) for name in names)
    return len(names)
