"""Flap damping, for a node that leaves service and returns again and again. Pure.

Each return within a window doubles the wait before the next one; after some, a person has to resume the
node. The number of returns is taken when the node is drained and stays with that drain. For the next
drain only the returns that are still in the window count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from holdfast.reason import Reason

_BY_HAND = "resume by hand"
_MOST_DOUBLINGS = 30
_FREE_CHANGES = 4
"""Changes of a comment within the window before the next one has to wait."""
_KEPT = 256
"""Returns that are kept; more than any limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """The agent returned the node to service at ``at`` (epoch s) after a drain for ``code``."""

    code: str
    at: float


class DampingLimits(Protocol):
    """``wait_s`` before the first return, ``max_wait_s`` at most; ``max_returns`` (0: no limit) within
    ``return_window_s`` (0: no damping).
    """

    @property
    def wait_s(self) -> float: ...
    @property
    def max_wait_s(self) -> float: ...
    @property
    def return_window_s(self) -> float: ...
    @property
    def max_returns(self) -> int: ...


def count(returns: Iterable[Return], code: str, limits: DampingLimits, now: datetime) -> int:
    """Returns for this code within the window. A clock that was set back removes none of them."""
    at = now.timestamp()
    return sum(past.code == code and abs(at - past.at) < limits.return_window_s for past in returns)


def with_return(returns: Iterable[Return], new: Return) -> tuple[Return, ...]:
    """The returns with a new one; the oldest are dropped beyond a bound."""
    return (*returns, new)[-_KEPT:]


def needs_person(returns: int, limits: DampingLimits) -> bool:
    """Whether only a person may end a drain that follows so many returns."""
    return 0 < limits.max_returns <= returns


def wait_s(returns: int, limits: DampingLimits) -> float:
    """The minimum time out of service, in seconds, after so many returns."""
    if not returns:
        return limits.wait_s
    grown = max(limits.wait_s, 1.0) * 2.0 ** min(returns, _MOST_DOUBLINGS)
    return min(grown, max(limits.max_wait_s, limits.wait_s))


def next_change_at(changes: Sequence[float], limits: DampingLimits, now: float) -> float:
    """When a node's comment may change next, after changes at these times (one clock, seconds)."""
    recent = [at for at in changes if now - at < limits.return_window_s]
    excess = len(recent) - _FREE_CHANGES
    return recent[-1] + wait_s(excess, limits) if excess > 0 else now


def prefix(returns: int, limits: DampingLimits) -> str:
    """The start of a reason that only a person may end. At the start, since a long reason is cut."""
    return f"returned {times(returns)} in {span(limits.return_window_s)}, {_BY_HAND}: "


def is_by_hand(reason: Reason) -> bool:
    """Whether only a person may end the drain with this reason (``prefix``)."""
    return reason.detail.startswith("returned ") and f", {_BY_HAND}: " in reason.detail


def returns_in(reason: Reason) -> int:
    """How many returns preceded the drain, from its reason."""
    count = reason.pairs.get("returns", "")
    return int(count) if count.isdecimal() else 0


def times(count: int) -> str:
    """A number of times in words: once, 2 times."""
    return "once" if count == 1 else f"{count} times"


def span(seconds: float) -> str:
    """A duration in words: 45 s, 60 min."""
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:g} s"
