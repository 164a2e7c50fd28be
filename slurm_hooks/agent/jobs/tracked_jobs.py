"""The jobs that the agent tracks for a requeue: one for each marker file on this node."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from slurm_hooks.agent.jobs.journal_comment import JournalComment
from slurm_hooks.agent.jobs.tracked_job import TrackedJob
from slurm_hooks.job import marker as markers

IDLE_S = 15.0
"""Between two queries for a running job. Normally the epilog's note wakes the agent earlier."""
_JOURNAL_S = 3.0
"""After the launcher's start the job's comment gets the path of the journal."""


class TrackedJobs:
    """``look`` is the first step about a job whose marker is new or has changed."""

    def __init__(
        self,
        run_dir: Path,
        journals: JournalComment,
        look: Callable[[TrackedJob, float], None],
        log: Callable[[str], None],
    ) -> None:
        self._jobs, self._ended = markers.folder(run_dir), markers.ended_folder(run_dir)
        self._journals, self._look, self._log = journals, look, log
        self._tracked: dict[int, TrackedJob] = {}

    def all(self) -> Collection[TrackedJob]:
        return self._tracked.values()

    def read(self, now: float) -> None:
        """Reads new and changed markers, and the notes of epilogs."""
        found = markers.listed(self._jobs, ".json")
        for job in set(self._tracked) - set(found):
            del self._tracked[job]
        for job, (path, changed_ns) in found.items():
            tracked = self._tracked.get(job)
            if tracked is None or tracked.changed_ns != changed_ns:
                self._open(job, path, changed_ns, now)
        self._wake_ended(now)

    def _open(self, job: int, path: Path, changed_ns: int, now: float) -> None:
        marker = markers.read(path)
        if marker is None:
            self._log(f"{path}: not a marker of holdfast run, removed")
            path.unlink(missing_ok=True)
            self._tracked.pop(job, None)
            self._journals.forget(job)
            return
        idle_s = IDLE_S if self._journals.looked_at(marker) else _JOURNAL_S
        if marker.state == markers.FINISHED and not self._journals.looked_at(marker):
            idle_s = 0.0  # a job that has ended is soon forgotten
        wait_s = 0.0 if marker.state == markers.REQUEUE or marker.leaving else idle_s
        before = self._tracked.get(job)
        # An unchanged marker that is sent again must not restart the period of frequent queries.
        since = before.since if before is not None and before.is_about(marker) else now
        tracked = TrackedJob(marker, changed_ns, since, now + wait_s, self._look)
        if before is not None:
            tracked.kept = before.kept
            same = before.marker.restarts == marker.restarts
            leaves = marker.leaving or marker.state == markers.REQUEUE
            tracked.kept_tried = before.kept_tried and same and leaves
        self._tracked[job] = tracked

    def _wake_ended(self, now: float) -> None:
        for job, (path, _) in markers.listed(self._ended, "").items():
            if job in self._tracked:
                self._tracked[job].due = now
                self._tracked[job].since = now
            path.unlink(missing_ok=True)

    def drop(self, tracked: TrackedJob) -> None:
        """Stop tracking a job; a newer marker of a new launcher stays."""
        path = self._jobs / f"{tracked.marker.job}.json"
        if markers.read(path) == tracked.marker:
            path.unlink(missing_ok=True)
        self._tracked.pop(tracked.marker.job, None)
        self._journals.forget(tracked.marker.job)
