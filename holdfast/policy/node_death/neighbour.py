"""What a node knows of one of its neighbours. Times are of its own monotonic clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.vocabulary import SlurmName

_BEATS_BEFORE = 10
"""Heartbeats in a row before a node's silence means anything."""
_ANSWERED_S = 5.0
"""A node counts as one that answers TCP if it did so this long before its last heartbeat."""
NEVER = float("-inf")


@dataclass(slots=True)
class Neighbour:
    """``run``, ``tick``: of its newest heartbeat, and ``views``: what it reported. ``echo``: run and tick to send back.

    ``beats``        heartbeats since it was last forgotten.
    ``beat_at``, ``answered_at``  last heartbeat, last answer to a connect; ``tried_at``: last connect.
    ``hears_at``     when it last proved that it hears this node.
    ``blind``        this node could not try to connect.
    ``settled``      it was found dead; ``asked``: that was decided, and Slurm is not changed yet.
    """

    run: str = ""
    tick: int = -1
    echo: tuple[str, int] = ("", -1)
    beats: int = 0
    beat_at: float = NEVER
    answered_at: float = NEVER
    hears_at: float = NEVER
    tried_at: float = NEVER
    blind: bool = False
    settled: bool = False
    asked: bool = False
    views: Mapping[SlurmName, float] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Both kinds of signs were seen, so their absence means something."""
        return self.beats >= _BEATS_BEFORE and self.beat_at - self.answered_at <= _ANSWERED_S

    @property
    def sign_at(self) -> float:
        """The last sign of life, of either kind."""
        return max(self.beat_at, self.answered_at)

    def forget(self) -> None:
        """It has to be heard again before its silence means anything."""
        self.beats, self.asked = 0, False
