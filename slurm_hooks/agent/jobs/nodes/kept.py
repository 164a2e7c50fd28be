"""Keeps the nodes of a job free while it is requeued.

Its nodes are idle before Slurm's requeue delay is over, and in this time any other job takes them, also one with a
lower priority (seen on 24.11.5 and 26.05.5). So the agent reserves them for root once the launcher is about to requeue
the job, and deletes the reservation right before it ends the delay. Then the job's priority decides, as for any other.

The job is never bound to the reservation: Slurm would hold it if the reservation ended first. If the agent is killed,
the reservation ends by itself after a minute.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Protocol

from holdfast.errors import Refused
from holdfast.slurm.client import SlurmJob
from holdfast.slurm.hostlist import names_in
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.jobs.nodes.limit import KeepLimit
from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker


class ReservationsClient(Protocol):
    """The calls of Slurm that are used here. They raise CommandError."""

    def keep_free(self, name: str, nodes: Sequence[SlurmName], comment: str) -> bool:
        """Reserve nodes for root for a minute, also while jobs run there."""
        ...

    def unreserve(self, name: str) -> bool:
        """Delete the reservation, also if there is none."""
        ...


class KeptNodes:
    """``enabled``: the site's choice."""

    def __init__(self, slurm: ReservationsClient, limit: KeepLimit, *, enabled: bool) -> None:
        self._slurm, self._limit, self._enabled = slurm, limit, enabled

    def nodes(self, marker: Marker, job: SlurmJob) -> tuple[SlurmName, ...]:
        """The nodes to keep now; none: the job has one node only, or its launcher requeues it not. Other jobs
        get the first of them some 0.2 s after the launcher's request, so nothing else is asked before. No job
        can start on those that are drained anyway."""
        states, again = set(job.state.split("+")), job.restarts - marker.restarts
        told = marker.leaving or marker.state == markers.REQUEUE
        runs = told and again == 0 and "RUNNING" in states
        leaves = told and again == 1 and "COMPLETING" in states
        names = names_in(job.nodes)
        if not self._enabled or len(names) < 2 or not (runs or leaves):
            return ()
        if not self._limit.allows(marker, runs=runs):
            return ()
        return tuple(SlurmName(name) for name in names if name not in marker.exclude)

    def reserve(self, marker: Marker, nodes: Sequence[SlurmName]) -> str:
        """The reservation's name; empty: Slurm refused it, and the job goes on without it."""
        name = f"holdfast-job-{marker.job}"
        comment = f"holdfast: job {marker.job} is requeued"
        if not self._limit.note(marker):
            return ""
        try:
            # Where the name is taken, an earlier call was carried out whose answer did not come.
            self._slurm.keep_free(name, nodes, comment)
        except Refused:
            return ""
        return name

    def free(self, name: str) -> None:
        with contextlib.suppress(Refused):  # it ends within a minute
            self._slurm.unreserve(name)

    def must_free(self, marker: Marker, job: SlurmJob) -> bool:
        """Whether nothing waits for the nodes any more: the next run has begun, or it begins without a delay."""
        states = set(job.state.split("+"))
        waits = job.restarts > marker.restarts and "PENDING" in states
        if marker.state != markers.REQUEUE and not (
            marker.leaving and job.restarts == marker.restarts
        ):
            return True
        return job.expedited and waits and "COMPLETING" not in states
