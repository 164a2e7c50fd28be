"""A log that repeats itself within limits.

When a right is missing, each of ten thousand nodes is refused with nearly the same line. Of lines of one
kind, the first ``BURST`` within ``PERIOD_S`` are printed; the next one after that tells how many were not.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.adapters.log import Log

BURST = 10
PERIOD_S = 60.0
_MOST_KINDS = 512
# What differs between two nodes: names in quotes, and words with a digit.
_NAMES = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s=:/,]*[0-9][^\s=:/,]*")


@dataclass(slots=True)
class _Kind:
    since: float
    printed: int = 0
    dropped: int = 0


class LimitedLog:
    """Has the methods of ``Log``. Thread-safe. ``exception`` has no limit."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic):
        self._log, self._clock = log, clock
        self._kinds: dict[tuple[str, ...], _Kind] = {}
        self._lock = threading.Lock()
        self.exception = log.exception

    def info(self, event: str, **facts: object) -> None:
        self._limited(self._log.info, "info", event, facts)

    def warning(self, event: str, **facts: object) -> None:
        self._limited(self._log.warning, "warning", event, facts)

    def error(self, event: str, **facts: object) -> None:
        self._limited(self._log.error, "error", event, facts)

    def _limited(
        self, write: Callable[..., None], level: str, event: str, facts: dict[str, object]
    ) -> None:
        now = self._clock()
        key = (level, event, *(_shape(name, value) for name, value in facts.items()))
        with self._lock:
            kind = self._kinds.get(key)
            if kind is None or now - kind.since >= PERIOD_S:
                if len(self._kinds) >= _MOST_KINDS:
                    self._kinds.clear()
                dropped = kind.dropped if kind else 0
                kind = self._kinds[key] = _Kind(since=now)
                if dropped:
                    facts = {**facts, "not_logged": dropped}
            kind.printed += 1
            if kind.printed > BURST:
                kind.dropped += 1
                return
            if kind.printed == BURST:
                facts = {**facts, "then": f"lines of this kind are not logged for {PERIOD_S:.0f} s"}
        write(event, **facts)


def _shape(name: str, value: object) -> str:
    """The same for facts that differ only in names of nodes, and in numbers."""
    if name in ("node", "nodes", "wait_s"):
        return name
    return f"{name}={_NAMES.sub('*', str(value))}"
