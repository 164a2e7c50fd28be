"""Changes that were rejected, and when each is retried. It affects only the order of writes.

Each Node waits for itself. Without the waits, the same rejected changes would be first in each plan and
take the time of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timedelta

from k8s_bridge.model.changes import Change, UpdateStatus

FIRST = timedelta(seconds=5)
"""The wait before a rejected change is retried; it doubles with each rejection."""
LONGEST_FAILURE = timedelta(seconds=20)
"""The longest wait after a temporary error of the API server."""
LONGEST = timedelta(minutes=5)
"""The longest wait: after it, a corrected admission policy takes effect."""
AFTER_CONFLICT = timedelta(seconds=1)
"""The wait after a conflict with other clients: other Nodes are handled meanwhile."""

Key = tuple[object, ...]


class Refusals:
    """Recently rejected changes. A change that is no longer planned is removed."""

    def __init__(self) -> None:
        self._rows: dict[Key, tuple[int, datetime]] = {}

    def due(self, changes: Iterable[Change], now: datetime) -> list[Change]:
        """The changes to write now, in their order."""
        if not self._rows:
            return list(changes)
        rows: dict[Key, tuple[int, datetime]] = {}
        due = []
        for change in changes:
            key = _key(change)
            row = self._rows.get(key)
            if row is not None:
                rows[key] = row
            # A clock that was set back must not extend a wait.
            if row is None or not now < row[1] <= now + LONGEST:
                due.append(change)
        self._rows = rows
        return due

    def refused(self, change: Change, now: datetime, longest: timedelta = LONGEST) -> timedelta:
        """Record a rejection. Returns the wait until the retry, ``longest`` at most."""
        key = _key(change)
        times = self._rows.get(key, (0, now))[0]
        wait = min(FIRST * (1 << min(times, 16)), longest)
        self._rows[key] = (times + 1, now + wait)
        return wait

    def conflicted(self, change: Change, now: datetime) -> None:
        """Record a conflict with another client."""
        key = _key(change)
        times = self._rows.get(key, (0, now))[0]
        self._rows[key] = (times, now + AFTER_CONFLICT)


def _key(change: Change) -> Key:
    """Changes with equal keys write the same; times, which each plan sets, do not count."""
    about = (type(change), change.kube.name, change.kube.uid)
    if isinstance(change, UpdateStatus):
        content = tuple((c.type, c.status, c.reason, c.message) for c in change.conditions)
        return (*about, content, change.label)
    written = (
        getattr(change, field.name, None) for field in fields(change) if field.name in _WRITTEN
    )
    return (*about, *written)


_WRITTEN = ("cordon", "taint", "uncordon", "untaint", "record")
