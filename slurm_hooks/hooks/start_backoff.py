"""How often an agent that does not stay alive is started again. Pure but for its small file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from holdfast.adapters.state_file import read_state, write_state
from holdfast.adapters.typed_json import typed

WINDOW_S = 3600.0
FREE_FRUITLESS = 5
"""Starts in a row without a verdict that need no waiting: what ends at once will end again."""
FREE = 60
"""Starts in the window that need none, verdict or not: each costs less than a second of a core, so
these are 1 % of one.
"""
FIRST_S, MOST_S = 10.0, 300.0
_KEPT = 100
VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """When (seconds of uptime) the agent was started in this boot, and under which configuration.

    ``fruitless``: how many of the last starts brought no verdict.
    """

    at: tuple[float, ...] = ()
    fruitless: int = 0
    config: tuple[int, int] = (0, 0)


def wait_s(starts: Starts, now: float, config: tuple[int, int]) -> float:
    """How long the next start has to wait; 0: it may be now.

    An agent that ends as soon as it is started must not cost its node a share of every health
    check: beyond what is free each start waits twice as long as the one before, five minutes at
    most. A configuration that was changed since the last start is a reason to try at once.
    """
    recent = _recent(starts.at, now)
    excess = max(len(recent) - FREE, starts.fruitless - FREE_FRUITLESS)
    if excess < 0 or not recent or config != starts.config:
        return 0.0
    return max(0.0, recent[-1] + min(MOST_S, FIRST_S * 2.0 ** min(excess, 10)) - now)


def with_verdict(starts: Starts) -> Starts:
    """The last start brought a verdict."""
    return replace(starts, fruitless=0)


def started(starts: Starts, now: float, config: tuple[int, int]) -> Starts:
    """With one more start; those under another configuration no longer count."""
    same = config == starts.config
    before = _recent(starts.at, now) if same else ()
    fruitless = starts.fruitless if same and before else 0
    return Starts(at=(*before, now)[-_KEPT:], fruitless=fruitless + 1, config=config)


def _recent(at: Sequence[float], now: float) -> tuple[float, ...]:
    return tuple(one for one in at if 0 <= now - one < WINDOW_S)


def path_in(run: Path) -> Path:
    return run / "agent.starts"


def load(path: Path) -> Starts:
    """What is known; nothing where the file cannot be believed."""
    said, _ = read_state(path, version=VERSION)
    try:
        return typed(said, Starts) if said is not None else Starts()
    except ValueError:
        return Starts()


def save(path: Path, starts: Starts) -> None:
    """Raises OSError."""
    write_state(path, asdict(starts), version=VERSION)
