"""A job that the agent tracks for a requeue (``requeue``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slurm_hooks.job.marker import Marker


@dataclass(slots=True)
class TrackedJob:
    """One marker and the state of its job. Times are in seconds of the caller's clock.

    ``changed_ns``    the marker file's modification time.
    ``since``         when the job changed last.
    ``due``           when ``next`` has to be called.
    ``starts``        how often the agent ended Slurm's requeue delay.
    ``excluded``      the job's ExcNodeList when it was seen pending.
    ``work_lost_at``  when the job was first seen running on a node whose work is lost.
    """

    marker: Marker
    changed_ns: int
    since: float
    due: float
    next: Callable[[TrackedJob, float], None]
    seen_pending_at: float | None = None
    starts: int = 0
    work_lost_at: float | None = None
    excluded: str = ""
