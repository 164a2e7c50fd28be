"""The steps of a requeue that are about the job's nodes: each makes one call to Slurm at most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from holdfast.slurm.client import SlurmJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.jobs.nodes.kept import KeptNodes, ReservationsClient
from slurm_hooks.agent.jobs.nodes.limit import KeepLimit
from slurm_hooks.agent.jobs.nodes.named import NamedNodes, NodesClient
from slurm_hooks.agent.jobs.requeue_rules import is_held
from slurm_hooks.agent.jobs.tracked_job import TrackedJob
from slurm_hooks.job import marker as markers
from slurm_hooks.settings.job import JobConfig

Step = Callable[[TrackedJob, float], None]


class NodeClient(NodesClient, ReservationsClient, Protocol):
    """All calls to Slurm about a job's nodes."""


class NodeSteps:
    """``look`` is the step after each of these, and ``start`` the one that starts a job. ``limit``: how often a
    job's nodes are kept."""

    def __init__(
        self,
        slurm: NodeClient,
        config: JobConfig,
        log: Callable[[str], None],
        limit: KeepLimit,
        *,
        look: Step,
        start: Step,
    ) -> None:
        self._kept = KeptNodes(slurm, limit, enabled=config.keep_nodes)
        self._named = NamedNodes(slurm, config.replace_nodes, log)
        self._look, self._start = look, start

    def due(self, tracked: TrackedJob, job: SlurmJob) -> Step | None:
        """The step that comes before anything else about the job; None: there is none."""
        marker = tracked.marker
        if tracked.kept and self._kept.must_free(marker, job):
            tracked.excluded = job.excluded
            at_once = marker.state == markers.REQUEUE and not is_held(job)
            return self.freed(self._start if at_once else self._look)
        nodes = () if tracked.kept_tried else self._kept.nodes(marker, job)
        if nodes:
            return partial(self._keep, nodes)
        if not tracked.named_looked_at and self._named.is_due(marker, job):
            return partial(self._look_at_named, job)
        return None

    def freed(self, then: Step) -> Step:
        """The step that deletes the job's reservation, with the one after it."""
        return partial(self._free, then)

    def _look_at_named(self, job: SlurmJob, tracked: TrackedJob, now: float) -> None:
        change = self._named.bad(tracked.marker, job)
        tracked.named_looked_at = True
        tracked.next, tracked.due = self._look, now
        if change is not None:
            tracked.next = partial(self._change_named, change)

    def _change_named(self, change: Callable[[], None], tracked: TrackedJob, now: float) -> None:
        change()
        tracked.next, tracked.due = self._look, now

    def _keep(self, nodes: Sequence[SlurmName], tracked: TrackedJob, now: float) -> None:
        tracked.kept_tried = True
        tracked.kept = self._kept.reserve(tracked.marker, nodes)
        tracked.next, tracked.due = self._look, now

    def _free(self, then: Step, tracked: TrackedJob, now: float) -> None:
        self._kept.free(tracked.kept)
        tracked.kept = ""
        tracked.next, tracked.due = then, now
