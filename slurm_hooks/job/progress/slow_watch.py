"""Reports an attempt that has become slower than it was. Nothing is restarted for it.

Of the output only the last lines of every few seconds are looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from slurm_hooks.job.progress.step_rate import Slowdown, StepRate, step_in

_EVERY_S = 5.0
_MAX_OUTPUTS = 64
_END_BYTES = 2048


class SlowWatch:
    """Of one attempt. It hears output in other threads than the one that looks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rates: dict[str, StepRate] = {}
        self._looked_at: dict[str, float] = {}
        self._found: Slowdown | None = None

    def hear(self, output: str, data: bytes) -> None:
        """``data`` was printed to this output."""
        now = self._clock()
        if now - self._looked_at.get(output, float("-inf")) < _EVERY_S:
            return
        if output not in self._looked_at and len(self._looked_at) >= _MAX_OUTPUTS:
            return
        self._looked_at[output] = now
        step = step_in(data[-_END_BYTES:])
        if step is not None:
            found = self._rates.setdefault(output, StepRate()).note(step, now)
            self._found = found or self._found

    def take(self) -> Slowdown | None:
        """A slowdown that has not been taken yet."""
        found, self._found = self._found, None
        return found


def text(slowdown: Slowdown, degraded: Iterable[str]) -> str:
    """One line. ``degraded``: the job's nodes with a fault that lets jobs go on, with the fault."""
    nodes = sorted(set(degraded))
    where = f"degraded: {', '.join(nodes)}" if nodes else "no node is known to be degraded"
    return f"the job has become slower: {slowdown}; {where}"
