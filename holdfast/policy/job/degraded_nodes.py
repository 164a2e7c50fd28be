"""Whether a running job leaves its degraded nodes, and when. Pure.

A fatal fault ends the attempt at once. Of the faults that let jobs go on, those that slow a whole job down or
are likely to become fatal (``Fault.moves_jobs``) have it moved at its next checkpoint, which costs no work. For all
others the job stays until it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Move(Enum):
    """What the launcher does now."""

    STAY = "stay"
    ASK = "ask"
    """Ask the program for a checkpoint."""
    WAIT = "wait"
    LEAVE = "leave"
    """Requeue: a checkpoint is complete."""
    GIVE_UP = "give-up"
    """No checkpoint came in time: the job stays until it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedFacts:
    """``count``: the job's nodes that it should leave. ``requeue``: it may be requeued. ``idle``: nodes of its
    partition that are free; None: not known. ``asked_s``: since when it has been asked for a checkpoint;
    None: not yet. ``written``: it has completed one since then."""

    count: int
    requeue: bool
    idle: int | None
    asked_s: float | None
    written: bool = False


def decide(facts: DegradedFacts, patience_s: float) -> Move:
    """``patience_s``: how long to wait for a checkpoint; 0: jobs never move.

    A job that has no other nodes to run on would wait in the queue, so it stays. It goes on meanwhile, so
    nothing is lost by waiting.
    """
    if not facts.count or not facts.requeue or patience_s <= 0:
        return Move.STAY
    enough = facts.idle is not None and facts.idle >= facts.count
    if facts.asked_s is None:
        return Move.ASK if enough else Move.STAY
    if facts.written and enough:
        return Move.LEAVE
    return Move.GIVE_UP if facts.asked_s >= patience_s else Move.WAIT
