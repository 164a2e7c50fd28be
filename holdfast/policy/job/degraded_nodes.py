"""Whether a running job leaves its degraded nodes, and when. Pure.

A fatal fault ends the attempt at once. Of the faults that let jobs go on, those that slow a whole job down or
are likely to become fatal (``Fault.moves_jobs``) have it moved at its next checkpoint, which costs no work. So
does a machine that is going to be stopped; shortly before that, the job leaves in any case. For all
others the job stays until it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

RESERVE_S = 30.0
"""So long before the machine is stopped the job leaves, also without a checkpoint: its tasks have to end, and
slurmctld has to requeue it."""


class Move(Enum):
    """What the launcher does now."""

    STAY = "stay"
    ASK = "ask"
    """Ask the program for a checkpoint."""
    WAIT = "wait"
    LEAVE = "leave"
    """Requeue: a checkpoint is complete, or the machine is about to be stopped."""
    GIVE_UP = "give-up"
    """No checkpoint came in time: the job stays until it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLimits:
    """``patience_s``: how long to wait for a checkpoint; 0: jobs never move. ``notice_s``: so long before a
    machine is stopped, the job leaves at its next checkpoint also where no other node is free.
    """

    patience_s: float
    notice_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedFacts:
    """``count``: the job's nodes that it should leave. ``requeue``: it may be requeued. ``idle``: nodes of its
    partition that are free; None: not known. ``asked_s``: since when it has been asked for a checkpoint;
    None: not yet. ``written``: it has completed one since then. ``left_s``: until the first of these machines
    is stopped; None: none is, or the time is not known."""

    count: int
    requeue: bool
    idle: int | None
    asked_s: float | None
    written: bool = False
    left_s: float | None = None


def is_urgent(left_s: float | None, limits: MoveLimits) -> bool:
    """Is the machine stopped so soon that the job does not wait for other nodes to be free?"""
    return left_s is not None and left_s <= limits.notice_s


def decide(facts: DegradedFacts, limits: MoveLimits) -> Move:
    """A job that has no other nodes to run on would wait in the queue, so it stays. It goes on meanwhile, so
    nothing is lost by waiting.
    """
    if not facts.count or not facts.requeue or limits.patience_s <= 0:
        return Move.STAY
    if facts.left_s is not None and is_urgent(facts.left_s, limits):
        return _before_the_stop(facts, facts.left_s)
    enough = facts.idle is not None and facts.idle >= facts.count
    if facts.asked_s is None:
        return Move.ASK if enough else Move.STAY
    if facts.written and enough:
        return Move.LEAVE
    return (
        Move.GIVE_UP if facts.asked_s >= limits.patience_s and facts.left_s is None else Move.WAIT
    )


def _before_the_stop(facts: DegradedFacts, left_s: float) -> Move:
    if facts.written or left_s <= RESERVE_S:
        return Move.LEAVE
    return Move.ASK if facts.asked_s is None else Move.WAIT
