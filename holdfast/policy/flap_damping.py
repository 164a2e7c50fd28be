"""A node that leaves service and returns again and again: each return within a window doubles the wait
before the next, and after some a person is asked. Pure.

What counts is the number of returns at the time of the drain. It decays as they leave the window, but
never for a drain that stands: who was asked stays asked.
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
"""Of a comment within the window, before the next has to wait."""
_KEPT = 256
"""Returns that are remembered; more than any limit counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """The agent gave the node back at ``at`` (epoch s) after a drain for ``code``."""

    code: str
    at: float


class Limits(Protocol):
    """``wait_s`` before the first return, ``max_wait_s`` what it grows to; ``max_returns`` (0: any number)
    within ``return_window_s`` (0: nothing is damped).
    """

    @property
    def wait_s(self) -> float: ...
    @property
    def max_wait_s(self) -> float: ...
    @property
    def return_window_s(self) -> float: ...
    @property
    def max_returns(self) -> int: ...


def count(returns: Iterable[Return], code: str, limits: Limits, now: datetime) -> int:
    """Returns for this code within the window. A clock that was set back makes none of them forgotten."""
    at = now.timestamp()
    return sum(one.code == code and abs(at - one.at) < limits.return_window_s for one in returns)


def with_return(returns: Iterable[Return], one: Return) -> tuple[Return, ...]:
    """The history with one more, bounded."""
    return (*returns, one)[-_KEPT:]


def asks_person(returns: int, limits: Limits) -> bool:
    """Whether only a person may end a drain that so many returns came before."""
    return 0 < limits.max_returns <= returns


def wait_s(returns: int, limits: Limits) -> float:
    """The least time out of service, in seconds, after so many returns."""
    if not returns:
        return limits.wait_s
    grown = max(limits.wait_s, 1.0) * 2.0 ** min(returns, _MOST_DOUBLINGS)
    return min(grown, max(limits.max_wait_s, limits.wait_s))


def next_change_at(changes: Sequence[float], limits: Limits, now: float) -> float:
    """When a node's comment may change again that was changed at these times (one clock, seconds)."""
    recent = [at for at in changes if now - at < limits.return_window_s]
    more = len(recent) - _FREE_CHANGES
    return recent[-1] + wait_s(more, limits) if more > 0 else now


def prefix(returns: int, limits: Limits) -> str:
    """What a reason begins with that asks for a person. In front, as a long reason loses its end."""
    return f"returned {times(returns)} in {span(limits.return_window_s)}, {_BY_HAND}: "


def says_by_hand(reason: Reason) -> bool:
    """Whether the reason of a drain asks for a person (``prefix``)."""
    return reason.detail.startswith("returned ") and f", {_BY_HAND}: " in reason.detail


def returns_in(reason: Reason) -> int:
    """How many returns came before the drain, as its reason says."""
    said = reason.pairs.get("returns", "")
    return int(said) if said.isdecimal() else 0


def times(count: int) -> str:
    """A number of times for people."""
    return "once" if count == 1 else f"{count} times"


def span(seconds: float) -> str:
    """A time for people: 45 s, 60 min."""
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:g} s"
