"""How long an attempt has made no progress: nothing printed, and nothing changed in its checkpoint folder.
Pure; times are ``time.monotonic``.

CPU and GPU use are no progress: a rank that waits in NCCL keeps a core and its GPU at 100 %.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_PAUSED_S = 120.0
"""A gap between two looks after which the time does not count: the job was suspended."""
MAX_DOUBLINGS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HangLimits:
    """``timeout_s``: such an attempt is ended. ``report_s``: without a timeout, it is reported. 0: never.

    ``of_site``: the site's default, which applies only to a job whose standard output is heard.
    """

    timeout_s: float = 0.0
    report_s: float = 0.0
    of_site: bool = False

    def after(self, hangs: int) -> HangLimits:
        """The limits after so many hangs in a row without progress: each one doubles the timeout, since it
        may be too short for this job."""
        factor = 2 ** min(hangs, MAX_DOUBLINGS)
        return replace(self, timeout_s=self.timeout_s * factor)

    @property
    def first_look_s(self) -> float | None:
        """From this silence on, the checkpoint folder is looked at; None: never."""
        return (self.timeout_s or self.report_s) / 2 or None


class Silence:
    """The time since the last progress."""

    def __init__(self, now: float) -> None:
        self._since = self._looked_at = now
        self._folder: object = None

    def look(self, now: float, heard_at: float) -> float:
        """Seconds without output. ``heard_at``: when the attempt printed something last."""
        if now - self._looked_at > _PAUSED_S:
            self._since = now
        self._looked_at = now
        self._since = max(self._since, heard_at)
        return now - self._since

    def look_at_folder(self, now: float, state: object) -> float:
        """Seconds without output and without a change in the checkpoint folder. ``state``: differs after
        each change; None: not known."""
        if state is not None:
            if self._folder not in (None, state):
                self._since = now
            self._folder = state
        return now - self._since
