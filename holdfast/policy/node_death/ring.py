"""Which nodes watch a node: its neighbours in a ring of all names. Pure.

Every agent computes the same ring from the same table, so nobody assigns watchers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.node_names import natural
from holdfast.vocabulary import SlurmName

WATCHED = 2
"""Neighbours on each side that watch a node: four watchers, of whom three must agree."""
EXCHANGE = 2 * WATCHED
"""Neighbours on each side that get a node's heartbeat, so that all watchers of a node hear each other."""


def ring(names: Iterable[SlurmName]) -> tuple[SlurmName, ...]:
    """The names in order, worker-2 before worker-10, each once."""
    return tuple(sorted(set(names), key=natural))


def neighbours(order: Sequence[SlurmName], name: SlurmName, reach: int) -> tuple[SlurmName, ...]:
    """The nodes at most ``reach`` places before and after ``name``, without itself; empty for an
    unknown name."""
    if name not in order:
        return ()
    at, total = order.index(name), len(order)
    steps = [step for step in range(-reach, reach + 1) if step]
    found = dict.fromkeys(order[(at + step) % total] for step in steps)
    found.pop(name, None)
    return tuple(found)
