"""A job that the agent tracks for a requeue (``requeue``)."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from holdfast.policy.job.excluded_nodes import Exclusion
from holdfast.slurm.client import SlurmJob
from holdfast.slurm.hostlist import names_in
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.marker import Marker

_HUNG_S = 60.0
"""A launcher acts on its node's fault much earlier than this, unless it hangs itself, for example
because its log or its checkpoints are on the lost mount."""
_GONE_S = 3.0
"""A batch script that ends leaves slurmctld as much time to learn of it."""
_LOOK_S = 1.0


@dataclass(slots=True)
class TrackedJob:
    """One marker and the state of its job. Times are in seconds of the caller's clock.

    ``changed_ns``    the marker file's modification time.
    ``since``         when the job changed last.
    ``due``           when ``next`` has to be called.
    ``starts``        how often the agent ended Slurm's requeue delay.
    ``script_gone_at``  when its batch script was first seen not to run here; ``looked_at``: the last look.
    ``excluded``      the job's ExcNodeList when it was seen pending.
    ``requested``     this agent has requeued it. ``forgotten``: how often slurmctld forgot a start.
    ``under_way_at``  when the job was first seen neither PENDING nor CONFIGURING.
    ``kept``          the reservation that keeps its nodes free; ``kept_tried``: this agent has tried to
                      make one.
    ``named_looked_at``  the nodes that it names have been looked at.
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
    script_gone_at: float | None = None
    looked_at: float = float("-inf")
    excluded: str = ""
    requested: bool = False
    forgotten: int = 0
    under_way_at: float | None = None
    named_looked_at: bool = False
    kept_tried: bool = False
    kept: str = ""

    def is_about(self, marker: Marker) -> bool:
        """True if this marker is about the same state of the same run."""
        return (self.marker.state, self.marker.restarts) == (marker.state, marker.restarts)

    def hangs(self, job: SlurmJob, now: float, work_lost: Callable[[], bool]) -> bool:
        """True if its launcher has not acted for long, although the job cannot continue here."""
        if job.state != "RUNNING" or not work_lost():
            self.work_lost_at = None
            return False
        if self.work_lost_at is None:
            self.work_lost_at = now
        return now - self.work_lost_at >= _HUNG_S

    def waited_s(self, states: Set[str], now: float) -> float:
        """How long a started job has been waiting for its nodes and prologs, or under way."""
        if states & {"PENDING", "CONFIGURING"}:
            self.under_way_at = None
            return now - self.since
        if self.under_way_at is None:
            self.under_way_at = now
        return now - self.under_way_at

    def script_is_gone(self, now: float, runs_here: Callable[[], bool]) -> bool:
        """True if its batch script has not run here for seconds. ``runs_here`` reads all processes, so it is
        asked once a second."""
        if now - self.looked_at < _LOOK_S:
            return False
        self.looked_at = now
        if runs_here():
            self.script_gone_at = None
            return False
        if self.script_gone_at is None:
            self.script_gone_at = now
        return now - self.script_gone_at >= _GONE_S

    def new_excluded(self) -> tuple[SlurmName, ...] | None:
        """The job's new ExcNodeList; None: it stays. What the job's owner excluded is kept."""
        change = Exclusion(
            add=tuple(map(SlurmName, self.marker.exclude)),
            remove=tuple(map(SlurmName, self.marker.release)),
        )
        listed = names_in(self.excluded)
        wanted = change.applied_to(listed)
        return None if self.starts or set(wanted) == set(listed) else wanted
