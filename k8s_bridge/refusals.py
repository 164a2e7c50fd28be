"""Changes that a side refused, and when each is tried again. A hint for the order of work, no state.

Without it the same refused changes would be planned first at each look, and where they are as many
as ``max_changes`` no other change would ever be written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timedelta

from k8s_bridge.plan import Change, Tell

FIRST = timedelta(seconds=5)
"""Wait before a refused change is tried again; it doubles with each refusal."""
LONGEST = timedelta(minutes=5)
"""The longest wait: a policy that an administrator corrects is seen by then."""
AFTER_CONFLICT = timedelta(seconds=1)
"""Wait after a change that others' writes prevented: long enough for another Node's turn."""

Key = tuple[object, ...]


class Refusals:
    """What was refused lately. Forgets a change as soon as it is no longer planned."""

    def __init__(self) -> None:
        self._rows: dict[Key, tuple[int, datetime]] = {}

    def due(self, changes: Iterable[Change], now: datetime) -> list[Change]:
        """Those that are to be tried now, in their order."""
        rows: dict[Key, tuple[int, datetime]] = {}
        due = []
        for change in changes:
            key = _key(change)
            row = self._rows.get(key)
            if row is not None:
                rows[key] = row
            # A clock that was set back must not make a wait longer.
            if row is None or not now < row[1] <= now + LONGEST:
                due.append(change)
        self._rows = rows
        return due

    def refused(self, change: Change, now: datetime) -> timedelta:
        """Notes a refusal. The wait until the next try."""
        times = self._rows.get(_key(change), (0, now))[0]
        wait = min(FIRST * (1 << min(times, 16)), LONGEST)
        self._rows[_key(change)] = (times + 1, now + wait)
        return wait

    def overtaken(self, change: Change, now: datetime) -> None:
        """Notes that others wrote first."""
        times = self._rows.get(_key(change), (0, now))[0]
        self._rows[_key(change)] = (times, now + AFTER_CONFLICT)


def _key(change: Change) -> Key:
    """Two changes with one key write the same: times that each look sets again do not count."""
    about = (type(change), change.kube.name, change.kube.uid)
    if isinstance(change, Tell):
        said = tuple((c.type, c.status, c.reason, c.message) for c in change.conditions)
        return (*about, said, change.label)
    written = (
        getattr(change, field.name, None) for field in fields(change) if field.name in _WRITTEN
    )
    return (*about, *written)


_WRITTEN = ("cordon", "taint", "uncordon", "untaint", "record")
