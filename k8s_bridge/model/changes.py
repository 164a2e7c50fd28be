"""The changes that a plan consists of. Values only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import get_args

from holdfast.records import leave
from holdfast.slurm.client import SlurmNode
from k8s_bridge.model.ownership import CORDON, BridgeRecord, cordon_reason, rule_reason
from k8s_bridge.model.snapshot import Condition, KubeNode, is_cordoned_by_others
from k8s_bridge.rules.rule import JobsMode, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """One Event about a Node.

    ``since`` is the time of the previous state; with it, a repeated Event gets the same name.
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
    record: BridgeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Undo what ``Isolate`` did, unless somebody changed it since, and drop the record, in one write."""

    kube: KubeNode
    uncordon: bool
    untaint: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRecord:
    """Write the record, or remove it (``None``)."""

    kube: KubeNode
    record: BridgeRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainInSlurm:
    """Drain the Slurm node because its Node was cordoned, or because ``rule`` holds for it. ``until``: when
    its jobs have to have left, epoch seconds; ``None``: not known, or they stay.
    """

    slurm: SlurmNode
    kube: KubeNode
    rule: Rule | None = None
    until: int | None = None

    def holds(self, fresh: KubeNode | None) -> bool:
        """Does the present Node still call for it? ``None``: there is no such Node."""
        if fresh is None:
            return self.kube.gone
        if fresh.uid != self.kube.uid or self.kube.gone:
            return False
        if self.rule is None:
            return requires_drain(fresh)
        if self.rule.pod:  # what was read is the Node
            fresh = replace(fresh, disruption=self.kube.disruption)
        return self.rule.matches(fresh) and self.rule.name not in fresh.drained_for

    def reason(self, clock: datetime) -> str:
        """Slurm's reason; ``clock`` is slurmctld's. The same for all nodes with an equal ``cause``."""
        if self.rule is None:
            return cordon_reason(clock)
        leaves = self.rule.jobs is JobsMode.LEAVE
        return rule_reason(self.rule.name, clock, leave.pairs(self.until) if leaves else None)

    @property
    def cause(self) -> tuple[Rule | None, int | None]:
        """Nodes with an equal one are drained in one write."""
        return self.rule, self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class UndrainInSlurm:
    """Undrain the Slurm node: what it was drained for is gone, and the bridge set the drain."""

    slurm: SlurmNode
    kube: KubeNode
    rules: tuple[Rule, ...] = ()

    def holds(self, fresh: KubeNode | None) -> bool:
        """Does the present Node still call for it? None of ``rules`` may match meanwhile."""
        return (
            fresh is not None
            and fresh.uid == self.kube.uid
            and not fresh.unschedulable
            and not any(rule.matches(fresh) for rule in self.rules)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStatus:
    """Write the changed conditions and the label (``None``: unchanged), and create Events for transitions.

    ``slurm`` is the node that they report; ``None``: Slurm does not know it, or cannot be read.
    """

    kube: KubeNode
    conditions: tuple[Condition, ...]
    label: str | None
    events: tuple[NodeEvent, ...]
    slurm: SlurmNode | None = None


Change = Isolate | Release | WriteRecord | DrainInSlurm | UndrainInSlurm | UpdateStatus
CHANGES = tuple(kind.__name__ for kind in get_args(Change))
"""The names of all kinds of changes, as in ``--plan --json`` and in the metrics."""


def requires_drain(view: KubeNode) -> bool:
    """A cordon by others that has not led to a drain yet.

    If it has, and the drain is gone while the cordon is there, somebody undrained the node on purpose.
    """
    return is_cordoned_by_others(view) and CORDON not in view.drained_for
