"""The changes that a plan consists of. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from holdfast.slurm.client import SlurmNode
from k8s_bridge.planning.ownership import BridgeRecord
from k8s_bridge.planning.snapshot import Condition, KubeNode


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
    """Drain the Slurm node because its Node was cordoned."""

    slurm: SlurmNode
    kube: KubeNode


@dataclass(frozen=True, slots=True, kw_only=True)
class UndrainInSlurm:
    """Undrain the Slurm node: the cordon is gone, and the bridge set the drain."""

    slurm: SlurmNode
    kube: KubeNode


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStatus:
    """Write the changed conditions and the label (``None``: unchanged), and create Events for transitions."""

    kube: KubeNode
    conditions: tuple[Condition, ...]
    label: str | None
    events: tuple[NodeEvent, ...]


Change = Isolate | Release | WriteRecord | DrainInSlurm | UndrainInSlurm | UpdateStatus
CHANGES = tuple(kind.__name__ for kind in get_args(Change))
"""The names of all kinds of changes, as in ``--plan --json`` and in the metrics."""
