"""Whether the bridge works: what ``/healthz`` and ``/readyz`` answer.

``/healthz``: the loop makes progress. If not, the process hangs, and a restart helps. ``/readyz``: both
Slurm and Kubernetes answer. A restart would not help against a side that is silent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.text.printable import folded
from k8s_bridge.names import KUBERNETES, SLURM

GRACE_S = 10.0
"""A side that failed to answer counts as silent after this time without an answer."""
_MOST_CHARS = 300


class Answer(NamedTuple):
    """``text`` has one line for each thing that was looked at."""

    ok: bool
    text: str


@dataclass(slots=True, kw_only=True)
class Side:
    """What is known of one side. ``seen_at``: the last answer; ``why``: the error since then."""

    seen_at: float | None = None
    why: str = ""


class Health:
    """Thread-safe. ``stalled_after_s``: the longest time that the loop may take without a sign of progress."""

    def __init__(self, stalled_after_s: float, clock: Callable[[], float] = time.monotonic):
        self._stalled_after_s, self._clock = stalled_after_s, clock
        self._lock = threading.Lock()
        self._alive_at = self._started_at = clock()
        self._sides = {SLURM: Side(), KUBERNETES: Side()}

    def alive(self) -> None:
        """The loop made progress: a pass, or one write."""
        self._alive_at = self._clock()

    def seen(self, side: str) -> None:
        """``side`` (SLURM or KUBERNETES) answered."""
        with self._lock:
            self._sides[side] = Side(seen_at=self._clock())

    def silent(self, side: str, why: object) -> None:
        """``side`` did not answer."""
        with self._lock:
            before = self._sides[side]
            text = folded(str(why))[:_MOST_CHARS]
            self._sides[side] = Side(seen_at=before.seen_at, why=text or "no answer")

    def healthz(self) -> Answer:
        """Does the loop make progress?"""
        idle_s = self._clock() - self._alive_at
        if idle_s <= self._stalled_after_s:
            return Answer(True, f"ok: the last progress was {idle_s:.1f} s ago\n")
        limit_s = self._stalled_after_s
        return Answer(False, f"stalled: no progress for {idle_s:.0f} s (limit {limit_s:.0f} s)\n")

    def readyz(self) -> Answer:
        """Do both sides answer? Each has a line."""
        rows = [(side, *self.side(side)) for side in (SLURM, KUBERNETES)]
        text = "".join(f"{side}: {words}\n" for side, _, words in rows)
        return Answer(all(ok for _, ok, _ in rows), text)

    def side(self, side: str) -> Answer:
        """Does ``side`` answer? In one line, without its name."""
        with self._lock:
            known = self._sides[side]
        now = self._clock()
        if known.seen_at is None:
            waited_s = now - self._started_at
            why = f": {known.why}" if known.why else ""
            return Answer(False, f"silent since the start {waited_s:.0f} s ago{why}")
        age_s = now - known.seen_at
        if known.why and age_s > GRACE_S:
            return Answer(False, f"silent for {age_s:.0f} s: {known.why}")
        return Answer(True, f"ok: answered {age_s:.1f} s ago")
