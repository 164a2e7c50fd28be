"""Waits for what the API server does a moment later, on a busy machine much later."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from k8s_bridge.kube.api import KubeRefused

TIMEOUT_S = 120.0
PAUSE_S = 0.1


def until(holds: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Fails if that does not hold in time."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, f"not within {timeout_s:g} s"
        time.sleep(PAUSE_S)


def until_denied(write: Callable[[str], object]) -> None:
    """An admission policy takes effect within about a second. ``write`` gets a new value each time: if the
    first write came too early, the same one again would change nothing, and no policy denies that.
    """
    values = map(str, itertools.count())

    def is_denied() -> bool:
        try:
            write(next(values))
        except KubeRefused:
            return True
        return False

    until(is_denied)
