"""Requeue of jobs under ``holdfast run`` whose launcher is gone, and their start without Slurm's
delay.

After a requeue the launcher no longer runs, so the agent of its node ends Slurm's requeue delay
(121 s by default). If the launcher was killed, the agent also requeues the job. If the agent does
not run, or the clocks differ too much, Slurm's own delay applies.

The job cannot start at once: slurmd refuses a credential that is not newer than the revocation of
the previous one, in whole seconds of slurmctld's clock ("Job N already killed, do not launch batch
job", seen on 24.11.5: the job ends as FAILED). So the agent waits until slurmctld's clock is one
second past the moment at which the job was seen pending, and longer by as much as this node's clock
is ahead.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from holdfast.config.kill_switch_files import ALL, is_off
from holdfast.errors import CommandError, Refused
from holdfast.slurm.client import SlurmClient, SlurmJob
from slurm_hooks.agent.jobs.journal_comment import CommentClient, JournalComment
from slurm_hooks.agent.jobs.nodes.limit import KeepLimit
from slurm_hooks.agent.jobs.nodes.steps import NodeClient, NodeSteps
from slurm_hooks.agent.jobs.requeue_rules import (
    ENDED_BADLY,
    HASTE_S,
    OF_THE_PROGRAM,
    Next,
    after_finish,
    after_requeue,
    before_requeue,
    patience_s,
)
from slurm_hooks.agent.jobs.tracked_job import TrackedJob
from slurm_hooks.agent.jobs.tracked_jobs import IDLE_S, TrackedJobs
from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker
from slurm_hooks.settings.job import JobConfig

_SOON_S = 0.1
_LATER_S = 1.0
_MAX_STARTS = 3
_DELAYED_S = 10.0
"""A start time further away is Slurm's requeue delay, and not a difference between two clocks."""


def _to_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")


class JobClient(SlurmClient, CommentClient, NodeClient, Protocol):
    """Slurm, with the comment, the hold and the list of nodes of a job."""

    def slurmctld_at(self) -> datetime:
        """The start time of the slurmctld that answers."""
        ...

    def release(self, job_id: int) -> None:
        """Release a held job."""
        ...


class Requeuer:
    """Tracks the jobs that have a marker on this node. ``step`` makes at most one call to Slurm.

    ``slurm``      every call has its own time limit.
    ``run_dir``    the agent's folder; ``jobs/`` and ``ended/`` in it are read.
    ``log``        receives one line about each action.
    ``wall``       this node's clock, epoch seconds; compared with slurmctld's.
    ``uid_of``     user name to uid.
    ``work_lost``  whether jobs on this node cannot continue and its agent has drained it.
    ``script_runs``  whether the batch script of a job runs on this node.
    """

    def __init__(  # noqa: PLR0913 - all but Slurm by name
        self,
        slurm: JobClient,
        run_dir: Path,
        config: JobConfig,
        *,
        log: Callable[[str], None] = _to_stderr,
        wall: Callable[[], float] = time.time,
        uid_of: Callable[[str], int | None] = markers.uid_of,
        work_lost: Callable[[], bool] = lambda: False,
        script_runs: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._slurm, self._config, self._log = slurm, config, log
        self._wall, self._uid_of, self._work_lost = wall, uid_of, work_lost
        self._script_runs = script_runs
        self._last_at: dict[int, float] = {}
        self._journals = JournalComment(slurm)
        limit = KeepLimit(run_dir, script_runs, wall)
        self._nodes = NodeSteps(slurm, config, log, limit, look=self._look, start=self._start)
        self._tracked = TrackedJobs(run_dir, self._journals, self._look, log)

    def step(self, now: float) -> None:
        """Handles the job that is due next; ``now`` in seconds of any steady clock. Slurm's errors
        are handled, not raised.
        """
        self._tracked.read(now)
        owners = {tracked.marker.owner for tracked in self._tracked.all()}
        self._last_at = {uid: at for uid, at in self._last_at.items() if uid in owners}
        due = [tracked for tracked in self._tracked.all() if tracked.due <= now]
        if not due or is_off(ALL):
            return
        # Users take turns: a user's job waits for at most one job of each other user.
        tracked = min(
            due, key=lambda job: (self._last_at.get(job.marker.owner, -math.inf), job.due)
        )
        self._last_at[tracked.marker.owner] = now
        try:
            tracked.next(tracked, now)
        except Refused as error:
            self._log(f"job {tracked.marker.job}: {error}")
            if tracked.next == self._start:
                # Or Slurm has started it: the look tells.
                self._forgotten(tracked, tracked.starts, now)
            else:
                self._drop(tracked, now)
        except CommandError:
            tracked.due = now + _LATER_S  # Slurm did not answer: the same call later

    def wait_s(self, now: float) -> float | None:
        """Seconds until the next useful ``step``; ``None``: when a file appears in ``jobs/``."""
        due = [tracked.due for tracked in self._tracked.all()]
        return max(0.0, min(due) - now) if due else None

    def _again(self, tracked: TrackedJob, now: float) -> None:
        tracked.due = now + (_SOON_S if now - tracked.since < HASTE_S else _LATER_S)

    def _look(self, tracked: TrackedJob, now: float) -> None:
        marker = tracked.marker
        job = self._slurm.job(marker.job)
        if job is None:
            self._drop(tracked, now)
        elif self._uid_of(job.user) != marker.owner:
            self._log(
                f"job {marker.job}: marker of uid {marker.owner}, but the job is {job.user}'s: removed"
            )
            self._drop(tracked, now)
        elif self._journals.is_missing(marker, job):
            tracked.next, tracked.due = partial(self._name_journal, job), now
        elif (step := self._nodes.due(tracked, job)) is not None:
            tracked.next, tracked.due = step, now
        else:
            self._carry_out(self._next(tracked, job, now), tracked, job, now)

    def _next(self, tracked: TrackedJob, job: SlurmJob, now: float) -> Next:
        marker, since_s = tracked.marker, now - tracked.since
        may_requeue = partial(self._may_requeue, marker, job)
        if job.restarts > marker.restarts:
            return after_requeue(marker, job, since_s, self._delay_s(job), may_requeue)
        if marker.state == markers.FINISHED and not tracked.requested:
            runs = partial(self._script_runs, job.job_id)
            return after_finish(marker, job, since_s, runs, may_requeue)
        return before_requeue(
            replace(marker, state=markers.REQUEUE) if tracked.requested else marker,
            job,
            since_s,
            lambda: tracked.hangs(job, now, self._work_lost),
            lambda: tracked.script_is_gone(now, lambda: self._script_runs(job.job_id)),
            may_requeue,
        )

    def _carry_out(self, step: Next, tracked: TrackedJob, job: SlurmJob, now: float) -> None:
        match step:
            case Next.FORGET:
                self._drop(tracked, now)
            case Next.LOOK_SOON:
                self._again(tracked, now)
            case Next.LOOK_LATER:
                tracked.due = now + IDLE_S
            case Next.REQUEUE:
                tracked.next, tracked.due = self._requeue, now
            case Next.REQUEUE_IF_FORGOTTEN:
                tracked.next, tracked.due = self._requeue_if_forgotten, now
            case Next.RELEASE:
                tracked.next, tracked.due = self._release, now
            case Next.RELEASE_IF_FORGOTTEN:
                tracked.next, tracked.due = self._release_if_forgotten, now
            case Next.START:
                tracked.next, tracked.due = self._wait_for_clock, now
                tracked.seen_pending_at, tracked.excluded = None, job.excluded

    def _name_journal(self, job: SlurmJob, tracked: TrackedJob, now: float) -> None:
        tracked.next, tracked.due = self._look, now
        self._journals.write(tracked.marker, job)

    def _drop(self, tracked: TrackedJob, now: float) -> None:
        """Stop tracking the job, once nothing is reserved for it any more."""
        if tracked.kept:
            tracked.next, tracked.due = self._nodes.freed(self._drop), now
        else:
            self._tracked.drop(tracked)

    def _may_requeue(self, marker: Marker, job: SlurmJob) -> bool:
        if not job.requeue:
            return False
        exits = marker.launchers_killed + (marker.state == markers.RUNNING)
        if exits >= self._config.max_same_failure or job.restarts + 1 >= self._config.max_attempts:
            self._log(
                f"job {marker.job}: not requeued: its launcher was killed {exits} times in a row, "
                f"{job.restarts} restarts"
            )
            return False
        return True

    def _requeue(self, tracked: TrackedJob, now: float) -> None:
        self._slurm.requeue(tracked.marker.job)
        tracked.requested = True
        gone = "its launcher was gone" if tracked.work_lost_at is None else "its launcher hangs"
        gone = gone if tracked.script_gone_at is None else "slurmctld has forgotten its requeue"
        gone = "slurmctld has forgotten its end" if tracked.marker.succeeded else gone
        why = "its start failed" if tracked.starts else gone
        self._log(f"job {tracked.marker.job}: {why}, requeued")
        tracked.next, tracked.since = self._look, now
        self._again(tracked, now)

    def _may_have_forgotten(self, tracked: TrackedJob) -> bool:
        """Only a slurmctld that was started after the launcher's last message can have forgotten what followed."""
        # slurmctld's start comes in whole seconds.
        return self._slurm.slurmctld_at().timestamp() + 1 > tracked.marker.at

    def _requeue_if_forgotten(self, tracked: TrackedJob, now: float) -> None:
        """Else the script goes on, and this agent cannot see it."""
        forgotten = self._may_have_forgotten(tracked)
        tracked.next, tracked.due = (
            (self._requeue, now) if forgotten else (self._look, now + IDLE_S)
        )

    def _release_if_forgotten(self, tracked: TrackedJob, now: float) -> None:
        """Else a person holds the job."""
        if self._may_have_forgotten(tracked):
            tracked.next, tracked.due = self._release, now
        else:
            self._drop(tracked, now)

    def _release(self, tracked: TrackedJob, now: float) -> None:
        self._slurm.release(tracked.marker.job)
        asked = tracked.marker.state == markers.REQUEUE
        why = "slurmctld has forgotten its requeue" if asked else "its launcher was gone"
        self._log(f"job {tracked.marker.job}: {why}, released")
        tracked.next, tracked.since = self._look, now
        self._again(tracked, now)

    def _delay_s(self, job: SlurmJob) -> float:
        return job.start_at.timestamp() - self._wall() if job.start_at else 0.0

    def _wait_for_clock(self, tracked: TrackedJob, now: float) -> None:
        before = self._wall()
        controller = self._slurm.clock().timestamp()
        # slurmctld's clock comes in whole seconds, so a difference below one second is not counted.
        ahead_s = max(0.0, before - controller)
        ahead_s = 0.0 if ahead_s < 1.0 else ahead_s
        if ahead_s > self._config.max_clock_skew_s:
            self._log(
                f"job {tracked.marker.job}: this clock is {ahead_s:.0f} s ahead of slurmctld's; "
                "Slurm's own requeue delay applies"
            )
            self._drop(tracked, now)
            return
        if tracked.seen_pending_at is None:
            tracked.seen_pending_at = controller
        if controller >= tracked.seen_pending_at + 1 + math.ceil(ahead_s):
            tracked.due = now
            tracked.next = self._nodes.freed(self._start) if tracked.kept else self._start
        else:
            self._again(tracked, now)

    def _start(self, tracked: TrackedJob, now: float) -> None:
        self._slurm.start_now(tracked.marker.job, tracked.new_excluded())
        tracked.starts, tracked.under_way_at = tracked.starts + 1, None
        waited = f"{now - tracked.since:.1f} s after it ended here"
        self._log(f"job {tracked.marker.job}: requeue delay ended, {waited}")
        tracked.next, tracked.since = self._confirm, now
        self._again(tracked, now)

    def _forgotten(self, tracked: TrackedJob, starts: int, now: float) -> None:
        """A slurmctld that was killed comes back with the job's state of seconds before: in its earlier run,
        or with its start time still in the future. ``starts``: those that it has not forgotten."""
        tracked.forgotten += 1
        if tracked.forgotten > _MAX_STARTS:
            self._drop(tracked, now)
            return
        tracked.starts, tracked.requested = max(0, starts), True
        tracked.next, tracked.since = self._look, now
        self._again(tracked, now)

    def _confirm(self, tracked: TrackedJob, now: float) -> None:
        """A start can fail before the new launcher runs: a node's prolog refuses the job, or slurmd
        the credential. Slurm's delay would then begin again."""
        job = self._slurm.job(tracked.marker.job)
        if job is None or tracked.starts >= _MAX_STARTS:
            self._drop(tracked, now)
            return
        states, again = set(job.state.split("+")), job.restarts - tracked.marker.restarts
        delayed = job.state_reason == "BeginTime" and self._delay_s(job) > _DELAYED_S
        if again < tracked.starts or (delayed and again == tracked.starts):
            self._log(f"job {job.job_id}: slurmctld has forgotten its start")
            self._forgotten(tracked, again - delayed, now)
        elif "PENDING" in states and again > tracked.starts:
            self._log(f"job {job.job_id}: its start failed, Slurm requeued it")
            tracked.next, tracked.since = self._look, now
            self._again(tracked, now)
        elif (
            states & ENDED_BADLY and job.state_reason != OF_THE_PROGRAM and again == tracked.starts
        ):
            self._log(f"job {job.job_id}: its start failed ({job.state_reason})")
            tracked.next, tracked.due = self._requeue, now
        elif tracked.waited_s(states, now) < patience_s(states):
            tracked.due = now + (_SOON_S if "PENDING" in states else _LATER_S)
        else:
            self._drop(tracked, now)
