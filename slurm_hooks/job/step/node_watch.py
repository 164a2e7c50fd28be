"""Looks at the job's nodes now and then while a step runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SETTLED_S = 120.0
_PRINTS_S = 30.0
SKIP, SKIP_NEAR_LIMIT = 11, 5
"""Looks that are left out in a row; with ``--continue``, whose time limit must not be missed."""


class Watch:
    """Calls ``look`` every ``poll_s`` in a thread, so that a slow slurmctld delays neither signals nor
    output.

    After two minutes a look costs more than it finds while the job prints something (``heard_at``,
    ``time.monotonic``): then ``skip`` of them in a row are left out.
    """

    def __init__(
        self,
        look: Callable[[], str],
        poll_s: float,
        wake: Callable[[], None],
        heard_at: Callable[[], float],
        skip: Callable[[], int] = lambda: SKIP,
    ) -> None:
        self.why = ""
        self._skip = skip
        self._look, self._poll_s, self._wake = look, poll_s, wake
        self._heard_at, self._started_at = heard_at, time.monotonic()
        self.skipped = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="watch")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._poll_s):
            if self.may_skip(time.monotonic()):
                self.skipped += 1
                continue
            self.skipped = 0
            self.why = self._look()
            if self.why:
                self._wake()
                return

    def may_skip(self, now: float) -> bool:
        """Whether the next look can be left out; ``skipped``: how many were, in a row."""
        settled = now - self._started_at > SETTLED_S
        prints = now - self._heard_at() < max(_PRINTS_S, 2 * self._poll_s)
        return settled and prints and self.skipped < self._skip()

    def stop(self) -> None:
        self._stop.set()
