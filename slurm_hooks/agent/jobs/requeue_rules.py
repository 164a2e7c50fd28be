"""What follows for a job under ``holdfast run`` from its state in Slurm and its marker. Pure."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from holdfast.slurm.client import SlurmJob
from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker

HASTE_S = 30.0
"""How long a job is queried every 0.1 s after a change; then once a second."""
MAX_DELAY_S = 600.0
"""A later start time is not a requeue delay but set by a person (``--begin``)."""
ENDED_BADLY = frozenset({"FAILED", "OUT_OF_MEMORY"})
"""States of a job whose launcher was killed. After NODE_FAIL Slurm requeues the job itself."""
_SIGNALLED = (":1", ":2", ":3", ":10", ":12", ":15")
"""Exit codes of a job whose batch script ended by SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2 or SIGTERM.
Only a person or a person's script sends these in a job that is not CANCELLED, TIMEOUT, …; the kernel
sends SIGKILL."""
_SETTLED_S = 3.0
"""A job that has been running for this long has started its script, so its launcher is responsible
again."""
_WAITS = frozenset({"Resources", "Priority", "Dependency", "DependencyNeverSatisfied", "Licenses"})
"""Reasons of a pending job whose start time has passed. For about a second after a requeue Slurm
still shows why the last run ended (NonZeroExitCode), which means nothing yet."""
_HELD = ("JobHeld", "launch failed")
_HELD_USER = "JobHeldUser"
_LAUNCHER_KILLED = "137:0"
"""The exit code of a batch script whose launcher was killed. A script that ends because a person requeues
or holds its job is ended by a signal itself."""
_UNDER_WAY = frozenset({"RUNNING", "CONFIGURING", "COMPLETING"})
OF_THE_PROGRAM = "NonZeroExitCode"
"""The state reason of a job whose script ran and failed; a start that slurmd refused has another
reason."""


_SAVED_S = 14.0
"""slurmctld saves that a job has ended within five seconds. One that is killed before comes back with the job
RUNNING."""
_FORGOTTEN_S = 600.0
"""It then finds out at the second registration of the job's first node, often a minute later, sometimes
more than three (seen on 24.11.5), and requeues the job."""


class Next(Enum):
    """The next step about a job."""

    FORGET = "forget"
    LOOK_SOON = "look soon"
    LOOK_LATER = "look later"
    REQUEUE = "requeue"
    REQUEUE_IF_FORGOTTEN = "requeue, if slurmctld was started after the launcher's end"
    RELEASE = "release"
    RELEASE_IF_FORGOTTEN = "release, if slurmctld was started after the launcher's request"
    START = "start without Slurm's delay"


def before_requeue(
    marker: Marker,
    job: SlurmJob,
    since_s: float,
    hangs: Callable[[], bool],
    script_gone: Callable[[], bool],
    may_requeue: Callable[[], bool],
) -> Next:
    """The next step about a job in the run that its marker is about. ``since_s``: seconds since the
    last change. ``hangs``: its launcher does not act on a fault of the node. ``script_gone``: its batch
    script has not run here for seconds. ``may_requeue``: the limits allow another run.
    """
    states = set(job.state.split("+"))
    if states & {"RUNNING", "SUSPENDED", "CONFIGURING"}:
        if marker.state != markers.RUNNING:
            # The launcher is about to requeue the job; or it or the agent has, and a slurmctld that was killed
            # then has forgotten it. That one finds out at this node's next registration but one, for a young job.
            if "RUNNING" not in states or not script_gone():
                return Next.LOOK_SOON
            return Next.REQUEUE if may_requeue() else Next.FORGET
        if not hangs():
            return Next.LOOK_LATER
        return Next.REQUEUE if may_requeue() else Next.FORGET
    if "COMPLETING" in states:
        return Next.LOOK_SOON
    if states & ENDED_BADLY:
        # For example scancel --batch -s TERM. After the launcher's own request the signal is Slurm's: a
        # slurmctld that was killed then has forgotten the requeue (seen on 26.05).
        by_person = marker.state == markers.RUNNING and job.exit_code.endswith(_SIGNALLED)
        return Next.REQUEUE if not by_person and may_requeue() else Next.FORGET
    if "PENDING" in states and since_s < HASTE_S:
        return Next.LOOK_SOON
    return Next.FORGET  # cancelled, timed out or completed: not requeued


def after_finish(
    marker: Marker,
    job: SlurmJob,
    since_s: float,
    script_runs: Callable[[], bool],
    may_requeue: Callable[[], bool],
) -> Next:
    """The next step about a job whose launcher has ended it for good. ``script_runs``: its batch script still
    runs here, with further commands."""
    states = set(job.state.split("+"))
    if "PENDING" in states or since_s >= _FORGOTTEN_S:
        return Next.FORGET
    if since_s < _SAVED_S:
        return Next.LOOK_LATER
    if "COMPLETING" in states:
        return Next.LOOK_LATER  # slurmctld knows of the end; an epilog may take minutes
    forgotten = bool(states & _UNDER_WAY) and not script_runs()
    if not forgotten:
        return Next.FORGET
    # Slurm requeues it some day. A command that has succeeded is not run again, so the job then completes.
    return Next.REQUEUE_IF_FORGOTTEN if marker.succeeded and may_requeue() else Next.LOOK_LATER


def after_requeue(
    marker: Marker,
    job: SlurmJob,
    since_s: float,
    delay_s: float,
    may_requeue: Callable[[], bool],
) -> Next:
    """The next step about a job that was requeued since. ``delay_s``: seconds until its start time."""
    states = set(job.state.split("+"))
    if "PENDING" not in states:
        return Next.FORGET
    if "COMPLETING" in states:
        return Next.LOOK_SOON  # on the nodes of its last run
    if _held_as_expedited(job) and may_requeue():
        if marker.state == markers.REQUEUE:
            return Next.RELEASE_IF_FORGOTTEN
        if marker.state == markers.RUNNING and job.exit_code == _LAUNCHER_KILLED:
            return Next.RELEASE
    if is_held(job) or delay_s > MAX_DELAY_S:
        return Next.FORGET  # held, or a start time set by a person
    if job.state_reason == "BeginTime" or delay_s > 0:
        return Next.START
    if job.state_reason in _WAITS or job.state_reason.startswith("ReqNodeNotAvail"):
        return Next.FORGET  # it may start, but waits for something else
    return Next.LOOK_SOON if since_s < MAX_DELAY_S else Next.FORGET


def is_held(job: SlurmJob) -> bool:
    """Whether Slurm or a person holds the pending job."""
    return job.state_reason.startswith(_HELD)


def _held_as_expedited(job: SlurmJob) -> bool:
    """Slurm requeues a job with ``--requeue=expedite`` whose script failed, and holds it unless an epilog
    failed (seen on 26.05.5). The launcher prevents that (Requeue=0) unless it was killed, or slurmctld was
    before it had saved the launcher's requeue. A person's ``scontrol requeuehold`` looks the same. The
    job's user may release such a hold; one of an administrator has another reason."""
    return job.expedited and "REQUEUE_HOLD" in job.state and job.state_reason == _HELD_USER


def patience_s(states: set[str]) -> float:
    """How long a start is checked: until the job runs, and a little longer. A prolog may take minutes, and
    then fail."""
    if "CONFIGURING" in states:
        return MAX_DELAY_S
    if "PENDING" in states:
        return HASTE_S
    return _SETTLED_S if states & _UNDER_WAY else 0.0
