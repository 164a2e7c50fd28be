"""What the agent does for jobs under ``holdfast run`` whose launcher is gone: requeue, start at
once.

The launcher cannot see its own job start again, so its node's agent ends Slurm's requeue delay (121
s by default) for it, and requeues the job when the launcher was killed. Agent dead, or clocks too
far apart: Slurm's own delay stays.

Why not at once: slurmd refuses a credential that is not younger than the revocation of the one
before, in whole seconds of slurmctld's clock ("Job N already killed, do not launch batch job", seen
on 24.11.5: the job ends as FAILED). So the start waits until that clock has moved on by a second
since the job was seen pending, and longer by as much as this node's clock is ahead.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.config.location import ALL, is_off
from holdfast.errors import CommandError, Refused
from holdfast.slurm.client import SlurmClient, SlurmJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.jobs.tracked_job import TrackedJob
from slurm_hooks.job import marker as markers
from slurm_hooks.job.config import JobConfig
from slurm_hooks.job.marker import Marker

_SOON_S = 0.1
_LATER_S = 1.0
_IDLE_S = 15.0
"""Between two looks at a job that runs: the epilog's touch wakes us long before."""
_HASTE_S = 30.0
"""How long a case is looked at often; then once a second."""
_MAX_DELAY_S = 600.0
"""A start further away is no requeue delay: somebody asked for it (``--begin``)."""

ENDED_BADLY = frozenset({"FAILED", "OUT_OF_MEMORY"})
"""What a job's state becomes when its launcher is killed. NODE_FAIL: Slurm requeues it by
itself.
"""


_TOLD_TO_END = (":2", ":15")
"""Exit code of a job whose batch script ended by SIGINT or SIGTERM. Nobody but a person or a script of
theirs sends these without a state of its own (CANCELLED, TIMEOUT, …); the kernel sends SIGKILL."""

_HUNG_S = 60.0
"""A launcher that lives has acted on its node's fault long before. Where the lost mount holds its log
or its checkpoints, it hangs there itself."""
_SETTLED_S = 3.0
"""A job that runs for so long has begun its script: from here its own launcher speaks for it."""
_MAX_STARTS = 3

_WAITS = frozenset({"Resources", "Priority", "Dependency", "DependencyNeverSatisfied", "Licenses"})
"""Reasons of a job whose time has come. For a second or so after the requeue Slurm still shows why
the last run ended (NonZeroExitCode): that is no answer yet."""
_HELD = ("JobHeld", "launch failed")
_UNDER_WAY = frozenset({"RUNNING", "CONFIGURING", "COMPLETING"})
_OF_THE_PROGRAM = "NonZeroExitCode"
"""Why a job ended whose script ran and failed; a start that slurmd refused has another reason."""


def _to_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")


class Requeuer:
    """Looks after the markers of one node. ``step`` makes at most one question or change to Slurm.

    ``slurm``    every call is bounded by its own time limit.
    ``run_dir``  the agent's folder; ``jobs/`` and ``ended/`` below it are looked at.
    ``log``      takes one line about each thing done.
    ``wall``     this node's clock, epoch seconds; compared with slurmctld's.
    ``condemned``  whether work on this node is lost, and its agent has drained it.
    """

    def __init__(  # noqa: PLR0913 - what is not Slurm's by name
        self,
        slurm: SlurmClient,
        run_dir: Path,
        config: JobConfig,
        *,
        log: Callable[[str], None] = _to_stderr,
        wall: Callable[[], float] = time.time,
        uid_of: Callable[[str], int | None] = markers.uid_of,
        condemned: Callable[[], bool] = lambda: False,
    ) -> None:
        self._slurm, self._config, self._log = slurm, config, log
        self._jobs, self._ended = markers.folder(run_dir), markers.ended_folder(run_dir)
        self._wall, self._uid_of, self._condemned = wall, uid_of, condemned
        self._cases: dict[int, TrackedJob] = {}
        self._last_at: dict[int, float] = {}

    def step(self, now: float) -> None:
        """Looks once; ``now`` in seconds of any steady clock. Raises nothing for what Slurm
        says.
        """
        self._take_stock(now)
        self._wake_ended(now)
        due = [case for case in self._cases.values() if case.due <= now]
        if not due or is_off(ALL):
            return
        # Users take turns: however many jobs one has here, another's waits for one of them at most.
        case = min(due, key=lambda one: (self._last_at.get(one.marker.owner, -math.inf), one.due))
        self._last_at[case.marker.owner] = now
        try:
            case.next(case, now)
        except Refused as error:
            self._log(f"job {case.marker.job}: {error}")
            self._drop(case)
        except CommandError:
            case.due = now + _LATER_S  # nobody answered: the same question later

    def wait_s(self, now: float) -> float | None:
        """Seconds until the next useful ``step``; ``None``: when a file appears in ``jobs/``."""
        return (
            max(0.0, min(case.due for case in self._cases.values()) - now) if self._cases else None
        )

    # -- files

    def _take_stock(self, now: float) -> None:
        found = markers.listed(self._jobs, ".json")
        for job in set(self._cases) - set(found):
            del self._cases[job]
        owners = {case.marker.owner for case in self._cases.values()}
        self._last_at = {uid: at for uid, at in self._last_at.items() if uid in owners}
        for job, (path, changed_ns) in found.items():
            case = self._cases.get(job)
            if case is None or case.changed_ns != changed_ns:
                self._open(job, path, changed_ns, now)

    def _open(self, job: int, path: Path, changed_ns: int, now: float) -> None:
        marker = markers.read(path)
        if marker is None or marker.state == markers.FINISHED:
            if marker is None:
                self._log(f"{path}: no marker of ours, removed")
            path.unlink(missing_ok=True)
            self._cases.pop(job, None)
            return
        wait_s = _IDLE_S if marker.state == markers.RUNNING else 0.0
        before = self._cases.get(job)
        # The same said again is no news: it must not keep the job looked at often.
        since = before.since if before is not None and _alike(before.marker, marker) else now
        self._cases[job] = TrackedJob(marker, changed_ns, since, now + wait_s, self._look)

    def _wake_ended(self, now: float) -> None:
        for job, (path, _) in markers.listed(self._ended, "").items():
            if job in self._cases:
                self._cases[job].due = now
                self._cases[job].since = now
            path.unlink(missing_ok=True)

    def _drop(self, case: TrackedJob) -> None:
        """Ends a case; a marker that a new launcher has put in its place stays."""
        path = self._jobs / f"{case.marker.job}.json"
        if markers.read(path) == case.marker:
            path.unlink(missing_ok=True)
        self._cases.pop(case.marker.job, None)

    def _again(self, case: TrackedJob, now: float) -> None:
        case.due = now + (_SOON_S if now - case.since < _HASTE_S else _LATER_S)

    # -- the job

    def _look(self, case: TrackedJob, now: float) -> None:
        marker = case.marker
        job = self._slurm.job(marker.job)
        if job is None:
            self._drop(case)
        elif self._uid_of(job.user) != marker.owner:
            self._log(
                f"job {marker.job}: marker of uid {marker.owner}, but the job is {job.user}'s: removed"
            )
            self._drop(case)
        elif job.restarts > marker.restarts:
            self._after_requeue(case, job, now)
        else:
            self._before_requeue(case, job, now)

    def _before_requeue(self, case: TrackedJob, job: SlurmJob, now: float) -> None:
        states = set(job.state.split("+"))
        if "RUNNING" in states or "SUSPENDED" in states or "CONFIGURING" in states:
            if case.marker.state != markers.RUNNING:
                self._again(case, now)  # the launcher is about to ask
            elif not self._hangs(case, job, now):
                case.due = now + _IDLE_S
            elif self._may_requeue(case.marker, job):
                case.next, case.due = self._requeue, now
            else:
                self._drop(case)
        elif "COMPLETING" in states:
            self._again(case, now)
        elif states & ENDED_BADLY and job.exit_code.endswith(_TOLD_TO_END):
            self._drop(case)  # as somebody wanted: scancel --batch -s TERM
        elif states & ENDED_BADLY and self._may_requeue(case.marker, job):
            case.next, case.due = self._requeue, now
        elif "PENDING" in states:
            self._again(case, now) if now - case.since < _HASTE_S else self._drop(case)
        else:
            self._drop(case)  # cancelled, timed out, completed: as its user wanted

    def _hangs(self, case: TrackedJob, job: SlurmJob, now: float) -> bool:
        if job.state != "RUNNING" or not self._condemned():
            case.condemned_at = None
            return False
        if case.condemned_at is None:
            case.condemned_at = now
        return now - case.condemned_at >= _HUNG_S

    def _may_requeue(self, marker: Marker, job: SlurmJob) -> bool:
        if not job.requeue:
            return False
        deaths = marker.deaths + (marker.state == markers.RUNNING)
        if deaths >= self._config.max_same_failure or job.restarts + 1 >= self._config.max_attempts:
            self._log(
                f"job {marker.job}: not requeued: its launcher died {deaths} times in a row, "
                f"{job.restarts} restarts"
            )
            return False
        return True

    def _requeue(self, case: TrackedJob, now: float) -> None:
        self._slurm.requeue(case.marker.job)
        gone = "its launcher was gone" if case.condemned_at is None else "its launcher hangs"
        why = "its start failed" if case.starts else gone
        self._log(f"job {case.marker.job}: {why}, requeued")
        case.next, case.since = self._look, now
        self._again(case, now)

    def _after_requeue(self, case: TrackedJob, job: SlurmJob, now: float) -> None:
        states = set(job.state.split("+"))
        if "PENDING" not in states:
            self._drop(case)
        elif len(states) > 1:
            self._again(case, now)  # still leaving its nodes
        elif job.state_reason.startswith(_HELD) or self._delay_s(job) > _MAX_DELAY_S:
            self._drop(case)  # as somebody wanted
        elif job.state_reason == "BeginTime" or self._delay_s(job) > 0:
            case.next, case.due, case.seen_pending_at = self._wait_for_clock, now, None
        elif job.state_reason in _WAITS or job.state_reason.startswith("ReqNodeNotAvail"):
            self._drop(case)  # its time has come, and it waits for something else
        elif now - case.since < _MAX_DELAY_S:
            self._again(case, now)
        else:
            self._drop(case)

    def _delay_s(self, job: SlurmJob) -> float:
        return job.start_at.timestamp() - self._wall() if job.start_at else 0.0

    def _wait_for_clock(self, case: TrackedJob, now: float) -> None:
        before = self._wall()
        controller = self._slurm.clock().timestamp()
        # Whole seconds: a difference below one second is none.
        ahead_s = max(0.0, before - controller)
        ahead_s = 0.0 if ahead_s < 1.0 else ahead_s
        if ahead_s > self._config.max_clock_skew_s:
            self._log(
                f"job {case.marker.job}: this clock is {ahead_s:.0f} s ahead of slurmctld's; "
                "Slurm's own requeue delay stays"
            )
            self._drop(case)
            return
        if case.seen_pending_at is None:
            case.seen_pending_at = controller
        if controller >= case.seen_pending_at + 1 + math.ceil(ahead_s):
            case.next, case.due = self._start, now
        else:
            self._again(case, now)

    def _start(self, case: TrackedJob, now: float) -> None:
        exclude = [SlurmName(name) for name in case.marker.exclude] if not case.starts else []
        self._slurm.start_now(case.marker.job, exclude)
        case.starts += 1
        waited = f"{now - case.since:.1f} s after it ended here"
        self._log(f"job {case.marker.job}: start time moved up, {waited}")
        case.next, case.since = self._confirm, now
        self._again(case, now)

    def _confirm(self, case: TrackedJob, now: float) -> None:
        """A start can fail before the new launcher runs and could speak for the job: a node's
        prolog refuses it, or slurmd the credential. Slurm's delay would begin anew then."""
        job = self._slurm.job(case.marker.job)
        if job is None or case.starts >= _MAX_STARTS:
            self._drop(case)
            return
        states, again = set(job.state.split("+")), job.restarts - case.marker.restarts
        if "PENDING" in states and again > case.starts:
            self._log(f"job {job.job_id}: its start failed, Slurm requeued it")
            case.next, case.since = self._look, now
            self._again(case, now)
        elif states & ENDED_BADLY and job.state_reason != _OF_THE_PROGRAM and again == case.starts:
            self._log(f"job {job.job_id}: its start failed ({job.state_reason})")
            case.next, case.due = self._requeue, now
        elif now - case.since < _patience_s(states):
            case.due = now + (_SOON_S if "PENDING" in states else _LATER_S)
        else:
            self._drop(case)


def _alike(one: Marker, other: Marker) -> bool:
    return (one.state, one.restarts) == (other.state, other.restarts)


def _patience_s(states: set[str]) -> float:
    """How long a start is looked after: until the job runs, and a little longer."""
    if "PENDING" in states:
        return _HASTE_S
    return _SETTLED_S if states & _UNDER_WAY else 0.0
