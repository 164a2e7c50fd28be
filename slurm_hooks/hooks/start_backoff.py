"""How often an agent that keeps exiting is started again. Pure except for its small file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from holdfast.adapters.state_file import read_state, write_state
from holdfast.adapters.typed_json import typed

WINDOW_S = 3600.0
FREE_FRUITLESS = 5
"""Starts in a row without a verdict before the next start has to wait."""
FREE = 60
"""Starts in the window, with or without a verdict, before the next start has to wait. Each takes
less than a second of a core, so these are less than 2 % of one.
"""
FIRST_S, MOST_S = 10.0, 300.0
_KEPT = 100
VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """When (seconds of uptime) the agent was started in this boot, and with which configuration
    (its stamp).

    ``fruitless``: how many of the last starts in a row gave no verdict.
    """

    at: tuple[float, ...] = ()
    fruitless: int = 0
    config: tuple[int, int] = (0, 0)


def wait_s(starts: Starts, now: float, config: tuple[int, int]) -> float:
    """How long the next start has to wait; 0: it may start now.

    An agent that exits right after its start must not load the node at every health check. Beyond
    the free starts, each one waits twice as long as the one before, five minutes at most. A
    configuration that changed since the last start is tried at once.
    """
    recent = _recent(starts.at, now)
    excess = max(len(recent) - FREE, starts.fruitless - FREE_FRUITLESS)
    if excess < 0 or not recent or config != starts.config:
        return 0.0
    return max(0.0, recent[-1] + min(MOST_S, FIRST_S * 2.0 ** min(excess, 10)) - now)


def with_verdict(starts: Starts) -> Starts:
    """The last start gave a verdict."""
    return replace(starts, fruitless=0)


def started(starts: Starts, now: float, config: tuple[int, int]) -> Starts:
    """With one more start; those with another configuration no longer count."""
    same = config == starts.config
    before = _recent(starts.at, now) if same else ()
    fruitless = starts.fruitless if same and before else 0
    return Starts(at=(*before, now)[-_KEPT:], fruitless=fruitless + 1, config=config)


def _recent(at: Sequence[float], now: float) -> tuple[float, ...]:
    return tuple(started_s for started_s in at if 0 <= now - started_s < WINDOW_S)


def path_in(run: Path) -> Path:
    return run / "agent.starts"


def load(path: Path) -> Starts:
    """The saved starts; none if the file is missing or invalid."""
    value, _ = read_state(path, version=VERSION)
    try:
        return typed(value, Starts) if value is not None else Starts()
    except ValueError:
        return Starts()


def save(path: Path, starts: Starts) -> None:
    """Raises OSError."""
    write_state(path, asdict(starts), version=VERSION)
