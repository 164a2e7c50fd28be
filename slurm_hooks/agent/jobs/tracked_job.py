"""What the agent knows of one job that it looks after (``afterlife``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slurm_hooks.job.marker import Marker


@dataclass(slots=True)
class TrackedJob:
    """One marker and what was seen of its job so far. Times are in the caller's seconds.

    ``work_lost_at``  since when the job runs on although its node is lost.
    """

    marker: Marker
    changed_ns: int
    since: float
    due: float
    next: Callable[[TrackedJob, float], None]
    seen_pending_at: float | None = None
    starts: int = 0
    work_lost_at: float | None = None
