"""What neighbours tell each other, and what one interval yields. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.vocabulary import SlurmName

UNKNOWN = -1.0
"""No opinion about that node: it was not heard long enough, or this node could not look."""
SETTLED = -2.0
"""That node was found dead, and Slurm was informed (or would have been)."""
LOST = -3.0
"""It was heard lately and gives no sign now, but not for long enough to mean anything."""
ALIVE = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One heartbeat of ``sender`` for ``to``.

    ``run``    random, of this start of the sender's agent; ``tick`` counts its intervals.
    ``echo_run``, ``echo_tick``  of the newest heartbeat that the sender has from ``to``: they show that
               this one is no copy of an old one, and that the sender hears ``to``.
    ``views``  by node: seconds of silence, or one of the values above.
    """

    sender: SlurmName
    to: SlurmName
    run: str
    tick: int
    echo_run: str = ""
    echo_tick: int = -1
    views: Mapping[SlurmName, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """``name`` gave no sign for ``silent_s``; ``agreed``: the watchers that say so, in order. ``run`` of its
    last heartbeat."""

    name: SlurmName
    silent_s: float
    agreed: tuple[SlurmName, ...]
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What to do after one interval.

    ``beats``    to send.
    ``connect``  nodes whose kernel must answer a TCP connect; ``connect_slurmd``: at slurmd's port too.
    ``dead``     nodes to set DOWN now.
    ``notes``    lines for the log.
    ``hurry``    a neighbour is silent: the next round is due early.
    ``reported_dead``  a neighbour reports that this node was found dead.
    ``strangers`` heartbeats came from nodes that are no neighbours: the node table has changed.
    ``returned`` nodes found dead before, and heard again.
    """

    beats: tuple[Heartbeat, ...] = ()
    connect: tuple[SlurmName, ...] = ()
    connect_slurmd: tuple[SlurmName, ...] = ()
    dead: tuple[Death, ...] = ()
    notes: tuple[str, ...] = ()
    hurry: bool = False
    reported_dead: bool = False
    strangers: bool = False
    returned: tuple[SlurmName, ...] = ()
