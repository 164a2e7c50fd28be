"""Which nodes a job excludes: what its owner asked for (``sbatch --exclude``) stays, and what Holdfast
added expires. Pure.

A node that a failure was attributed to may be repaired or innocent. Slurm itself never removes a node from
a job's ExcNodeList, so a long job would end with too few nodes. A node that has passed an inspection since leaves the
list at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from holdfast.vocabulary import SlurmName

EXPIRES_AFTER = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A change of the job's ExcNodeList: nodes to add, and nodes to remove."""

    add: tuple[SlurmName, ...] = ()
    remove: tuple[SlurmName, ...] = ()

    def applied_to(self, listed: Iterable[str]) -> tuple[SlurmName, ...]:
        """The new list, sorted. ``listed``: the present one."""
        kept = {SlurmName(name) for name in listed} - set(self.remove)
        return tuple(sorted(kept | set(self.add)))


def exclusion(
    ours: Mapping[SlurmName, datetime],
    suspects: Collection[SlurmName],
    listed: Collection[str],
    now: datetime,
    passed: Mapping[SlurmName, datetime] = MappingProxyType({}),
) -> Exclusion:
    """The change for the next run.

    ``ours``      nodes that Holdfast has added to the list for this job, and when last.
    ``suspects``  nodes that the next run must avoid.
    ``passed``    nodes that have passed an inspection, and when last.
    ``listed``    the list now. A node in it that is not ours is its owner's, and is never removed.
    """
    added = {node for node in suspects if node in ours or node not in listed}
    expired = {
        node
        for node, at in ours.items()
        if now - at >= EXPIRES_AFTER or (node in passed and passed[node] > at)
    } - set(suspects)
    return Exclusion(add=tuple(sorted(added)), remove=tuple(sorted(expired)))
