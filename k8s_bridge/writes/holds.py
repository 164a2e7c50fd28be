"""Changes that wait until they have stood for a time: a state that passes soon is not written at all.

* A node that slurmctld does not know for a moment (after its restart, or one lost answer) keeps its
  conditions.
* While jobs follow one another on a node, it stays busy: the first job costs one write, the next ones none.

Only the order of writes in time depends on it; a restarted bridge waits once more.
"""

from __future__ import annotations

from collections.abc import Iterable

from k8s_bridge.model.changes import Change, UpdateStatus
from k8s_bridge.names import BUSY, DRAINED, READY

BUSY_WORDS = frozenset({"idle", "mixed", "allocated", "completing", "planned"})
"""Values of the state label that follow jobs."""
_PASSING = frozenset({"Unknown", "NotResponding"})
"""Reasons of the status Unknown that slurmctld sets and clears by itself."""

Key = tuple[object, ...]


class Holds:
    """When each waiting change was first planned. ``unknown_s`` and ``free_s``: how long a node has to be
    unknown, or without a job (or with another kind of load), before that is written.
    """

    def __init__(self, unknown_s: float, free_s: float):
        self._unknown_s, self._free_s = unknown_s, free_s
        self._rows: dict[Key, float] = {}

    def due(self, changes: Iterable[Change], now: float) -> list[Change]:
        """The changes to write at the monotonic time ``now``, in their order."""
        rows: dict[Key, float] = {}
        due = []
        for change in changes:
            if isinstance(change, UpdateStatus) and (hold_s := self._hold_s(change)):
                key = _key(change)
                rows[key] = self._rows.get(key, now)
                if now - rows[key] < hold_s:
                    continue
            due.append(change)
        self._rows = rows
        return due

    def _hold_s(self, update: UpdateStatus) -> float:
        old = update.kube.conditions
        if not old or update.slurm is None:
            return 0.0  # the first view of a node, or Slurm does not know it: neither passes
        if _all_passing(update):
            return self._unknown_s
        return self._free_s if _only_load(update) else 0.0


def _all_passing(update: UpdateStatus) -> bool:
    """Is Unknown all that is new, and was the state known before?"""
    return bool(update.conditions) and all(
        new.status == "Unknown"
        and new.reason in _PASSING
        and update.kube.conditions.get(new.type) is not None
        for new in update.conditions
    )


def _only_load(update: UpdateStatus) -> bool:
    """Is the load all that changed, and is the node not becoming busy? That is written at once, and so is
    the end of the last job of a draining node.
    """
    drained = update.kube.conditions.get(DRAINED)
    if drained is None or drained.status != "False":
        return False
    if update.label is not None and not {update.label, update.kube.label} <= BUSY_WORDS:
        return False
    for new in update.conditions:
        old = update.kube.conditions.get(new.type)
        if new.type in (READY, DRAINED) or new.type != BUSY or old is None:
            return False
        if old.status != "True":
            return False
    return True


def _key(update: UpdateStatus) -> Key:
    """What waits: another Unknown, or another end of the load, is the same wait."""
    kinds = tuple(sorted((c.type, c.status) for c in update.conditions))
    return (update.kube.name, update.kube.uid, kinds)
