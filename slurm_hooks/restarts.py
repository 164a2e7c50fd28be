"""How often an agent that does not stay alive is started again. Pure but for its small file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.adapters.statefile import read_state, write_state
from holdfast.adapters.typed_json import typed

WINDOW_S = 3600.0
FREE = 5
"""Starts in the window that need no waiting: reboots, upgrades and people's restarts."""
FIRST_S, MOST_S = 10.0, 300.0
_KEPT = 50
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """When (seconds of uptime) the agent was started in this boot, and under which configuration."""

    at: tuple[float, ...] = ()
    config: tuple[int, int] = (0, 0)


def wait_s(starts: Starts, now: float, config: tuple[int, int]) -> float:
    """How long the next start has to wait; 0: it may be now.

    An agent that ends as soon as it is started costs a node a core's share of every health check.
    From the sixth start in an hour on, each waits twice as long as the one before, five minutes
    at most. A configuration that was changed since the last start is a reason to try at once.
    """
    recent = _recent(starts.at, now)
    if len(recent) < FREE or config != starts.config:
        return 0.0
    pause_s = min(MOST_S, FIRST_S * 2.0 ** (len(recent) - FREE))
    return max(0.0, recent[-1] + pause_s - now)


def started(starts: Starts, now: float, config: tuple[int, int]) -> Starts:
    """With one more start; those under another configuration no longer count."""
    before = _recent(starts.at, now) if config == starts.config else ()
    return Starts(at=(*before, now)[-_KEPT:], config=config)


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
