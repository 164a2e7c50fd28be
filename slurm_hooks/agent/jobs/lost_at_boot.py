"""Jobs that the node's last boot ended and that slurmctld still shows as running here.

slurmctld requeues a job whose batch script is missing when the job's node registers, but only if the
job started more than BatchStartTimeout and MessageTimeout (20 s by default) before that
(``_foreach_purge_missing_jobs`` in src/slurmctld/job_mgr.c). A node that boots faster than that
registers too early. Its job then stays RUNNING without a process until slurmctld requests the next
registration: 55 s with SlurmdTimeout=10 (seen on 24.11.5), half an hour with Slurm's default of 300.
The agent requeues such a job as slurmctld would.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Set
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.adapters.log import Log
from holdfast.errors import Refused
from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.client import RunningJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.component import NEVER
from slurm_hooks.agent.job_runs.runs import Runs
from slurm_hooks.node import machine, slurmstepds
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Worker

log = Log("agent")

LOOK_AFTER_S = 15.0
"""Seconds after a boot. By then slurmctld has started, on this boot, what it had sent before."""
GIVE_UP_S = 600.0
"""Seconds after a boot. An agent that starts later looks for no such jobs."""
_AGAIN_S = 15.0
"""After a requeue too: slurmctld saves its state seconds later, and one that is killed before that
starts with the job RUNNING again (seen in a campaign of faults)."""
REQUEUED = "requeued, because this node's boot ended it"
_CALLS = 6


class LostJobs:
    """Looks after each boot until it has requeued none. ``runs``: the jobs whose prologs ran on this
    boot."""

    def __init__(self, node: SlurmName, config: Settings, runs: Callable[[], Runs]) -> None:
        self._node, self._config, self._runs = node, config, runs
        self._worker = Worker("lost_jobs", self._open, keep=False)
        booted_s = booted_s_ago(config.cluster.paths.procfs)
        now = time.monotonic()
        self._until = now + GIVE_UP_S - booted_s
        self._due = now + max(0.0, LOOK_AFTER_S - booted_s) if booted_s < GIVE_UP_S else NEVER

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    @property
    def next_at(self) -> float:
        return NEVER if self._worker.busy else self._due

    def fds(self) -> Iterator[tuple[int, int]]:
        return iter(())

    def turn(self, now: float) -> bool:
        answer = self._worker.take()
        if answer is not None:
            for line in answer.items:
                log.warning("job", action=line)
            requeued = any(line.endswith(REQUEUED) for line in answer.items)
            if (requeued or not answer.complete) and now < self._until:
                self._due = now + _AGAIN_S
            elif not answer.complete:
                log.error("jobs of the last boot not checked", why=answer.error)
        if not self._worker.busy and now >= self._due:
            self._due = NEVER
            if self._config.may_act():
                started = frozenset(run.job for run in self._runs().runs.values())
                timeout_s = self._config.cluster.slurm.timeout_s
                self._worker.ask(started, deadline_s=timeout_s * _CALLS)
        self._worker.reap(now)
        return False

    def close(self) -> None:
        self._worker.close()

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        cluster = self._config.cluster
        slurm = SlurmCli(cluster.slurm.timeout_s, cluster.slurm.bin)

        def serve(started: frozenset[int]) -> Iterator[str]:
            return requeue_lost(slurm, self._node, cluster.paths.procfs, started)

        return serve


def requeue_lost(
    slurm: SlurmCli, node: SlurmName, procfs: Path, started: Set[int]
) -> Iterator[str]:
    """Requeue the jobs that the boot ended; one line for each. Raises ``CommandError`` if Slurm does not
    answer."""
    jobs = slurm.running_jobs(node)
    # slurmctld's clock is rounded down, so the boot was up to a second later than without the 1.
    boot_at = slurm.clock() + timedelta(seconds=1 - booted_s_ago(procfs))
    for job in lost(jobs, node, boot_at, started | jobs_with_step(procfs)):
        try:
            slurm.requeue(job.job_id)
        except Refused as error:
            yield f"{job.job_id}: ended by this node's boot, and Slurm does not requeue it: {error}"
        else:
            yield f"{job.job_id}: {REQUEUED}"


def lost(
    jobs: Iterable[RunningJob], node: SlurmName, boot_at: datetime, alive: Set[int]
) -> list[RunningJob]:
    """The jobs whose batch script ran on this node before ``boot_at`` (slurmctld's clock), and of which
    nothing has started since. Slurm's times are whole seconds, rounded down."""
    return [
        job
        for job in jobs
        if job.batch_host == node and job.start_at <= boot_at and job.job_id not in alive
    ]


def jobs_with_step(procfs: Path) -> frozenset[int]:
    """The jobs that have a slurmstepd on this node."""
    return frozenset(job for job, _ in slurmstepds.steps(procfs))


def booted_s_ago(procfs: Path) -> float:
    """Seconds since this machine, or this container, has started: the age of process 1 where it is
    younger than the machine. Raises OSError and ValueError."""
    uptime_s = machine.uptime_s(procfs)
    try:
        fields = (procfs / "1" / "stat").read_text(errors="replace").rpartition(")")[2].split()
        age_s = uptime_s - int(fields[19]) / os.sysconf("SC_CLK_TCK")  # starttime, proc_pid_stat(5)
    except (OSError, ValueError, IndexError):
        return uptime_s
    return age_s if 0 <= age_s < uptime_s else uptime_s
