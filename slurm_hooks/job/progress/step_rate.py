"""How fast a job trains, by the step numbers that it prints, compared with its own earlier rate. Pure.

Times are ``time.monotonic``. A rate is that of one minute or more, so single slow steps do not count. A pause for an
evaluation or a checkpoint makes one minute slower, not five in a row.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_hooks.job.diagnosis.matching.match import progress_in, search

_WINDOW_S = 60.0
_RECENT = 5
"""Minutes in a row that must be slower."""
_WARM_UP = 2
"""Minutes after the start that do not count: compilation, caches."""
_LEAST = 10
_KEPT = 60
_SLOWER = 0.8
"""Of the earlier rate. ByteRobust acts at 0.9 of MFU; printed steps tell less exactly."""
_STEP_ROWS = frozenset({"P02", "P03", "P04"})
"""Rows of the catalogue that tell the number of a training step."""
_MAX_LINES = 8
_MAX_LINE_BYTES = 500
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """Steps per second, before and during the last minutes."""

    before: float
    now: float

    def __str__(self) -> str:
        return f"{self.now:.3g} steps/s for {_RECENT} minutes, {self.before:.3g} before"


class StepRate:
    """The rate of one output."""

    def __init__(self) -> None:
        self._start: tuple[float, float] | None = None
        self._skipped = 0
        self._usual: deque[float] = deque(maxlen=_KEPT)
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def note(self, step: float, at: float) -> Slowdown | None:
        """The output is at ``step``. A slowdown is reported once: the rate since then is the usual one after it."""
        if self._start is None or step < self._start[0]:
            self._start = (step, at)
            return None
        span_s = at - self._start[1]
        if span_s < _WINDOW_S or step == self._start[0]:
            return None
        rate = (step - self._start[0]) / span_s
        self._start = (step, at)
        if self._skipped < _WARM_UP:
            self._skipped += 1
            return None
        return self._add(rate)

    def _add(self, rate: float) -> Slowdown | None:
        if len(self._recent) == _RECENT:
            self._usual.append(self._recent[0])
        self._recent.append(rate)
        if len(self._usual) < _LEAST:
            return None
        before = _median(self._usual)
        if max(self._recent) >= _SLOWER * before:
            return None
        found = Slowdown(before=before, now=_median(self._recent))
        self._usual.clear()
        self._recent.clear()
        return found


def _median(values: Iterable[float]) -> float:
    """The upper one of two. The module statistics would take half a MiB of the launcher's memory."""
    found = sorted(values)
    return found[len(found) // 2]


def step_in(data: bytes) -> float | None:
    """The number of the last training step that the end of an output tells; None: it tells none."""
    for line in reversed(data.splitlines()[-_MAX_LINES:]):
        text = line[:_MAX_LINE_BYTES].decode("utf-8", "replace")
        row = progress_in(text)
        if row is None or row.code not in _STEP_ROWS:
            continue
        found = search(row, text)
        named = found.groupdict() if found else {}
        number = _NUMBER.match(named.get("step") or named.get("n") or "")
        if number:
            return float(number[0])
    return None
