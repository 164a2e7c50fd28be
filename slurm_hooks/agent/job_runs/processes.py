"""The processes of jobs on this node: finds them in /proc, and kills them on request.

Runs only inside a contained worker: reading a process's environment takes a lock of its memory,
which a process stuck in the driver may hold for ever.

A process belongs to a job by its cgroup, which only slurmstepd creates: ``…/job_4711/…``, or
``…/SLUID/step_0/…``, and a slurmstepd there tells the job. If Slurm uses no cgroups, by SLURM_JOB_ID in
its initial environment. Users can forge the environment, so a process is killed only if it also runs as
the job's user, and never if that user is root.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_hooks.agent.kill_tasks.affected_tasks import TasksToKill, affected
from slurm_hooks.node import kernel_files, step_cgroup
from slurm_hooks.node.process import environment, process_state, send
from slurm_hooks.node.process_scan import each, uid_of
from slurm_hooks.node.slurmstepds import jobs_of_sluids

_ENV = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "CUDA_VISIBLE_DEVICES",
)
_COMMAND_CHARS = 80
_VALUE_CHARS = 1024
"""Of a list of GPUs: a user may have ten thousand processes, each with a mebibyte of environment."""
_TOO_LONG = "?"
"""No list of GPUs: the process may use any."""
_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProcess:
    """One process of a job.

    ``start_s``    seconds since boot when it started; ``start`` is the same in clock ticks and distinguishes
                   it from a later process with the same pid.
    ``restarts``   restart count of its run; None: not in its environment.
    ``by_cgroup``  its cgroup names the job.
    ``env``        the variables of its environment that name its GPUs.
    """

    pid: int
    start: int
    start_s: float
    uid: int
    job: int
    step: str = ""
    restarts: int | None = None
    by_cgroup: bool = False
    command: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    def uses(self, gpu: int, uuid: str | None) -> bool | None:
        """Whether it may use this GPU; None: unknown."""
        if not self.env:
            return None
        return affected(
            self.env, TasksToKill(gpus=frozenset({gpu}), uuids=frozenset({uuid} if uuid else ()))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A request for the processes of all jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A request to end these processes: SIGTERM, after ``grace_s`` SIGKILL, then the same time to
    exit."""

    processes: tuple[JobProcess, ...]
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The result for a process that had to end. ``state`` is the kernel's state letter; empty:
    gone."""

    pid: int
    start: int
    gone: bool
    state: str = ""


def open_processes(procfs: Path = Path("/proc")) -> Callable[[Any], Iterator[Any]]:
    """Answers ``Scan`` with JobProcess items and ``End`` with a Fate for each process."""

    known = KnownJobs(procfs)

    def serve(request: Any) -> Iterator[Any]:
        if isinstance(request, Scan):
            yield from scan(procfs, known)
        elif isinstance(request, End):
            yield from end(request, procfs)
        else:
            raise TypeError(f"expected Scan or End, got {request!r}")

    return serve


class KnownJobs:
    """The jobs of the SLUIDs in cgroups. Those of jobs that have ended stay known, the newest ``_MOST_KNOWN``."""

    def __init__(self, procfs: Path) -> None:
        self._procfs = procfs
        self._jobs: dict[str, int] = {}
        self._unknown: set[str] = set()

    def begin(self) -> None:
        """A new scan: a SLUID that was unknown may be known now."""
        self._unknown.clear()

    def job(self, sluid: str) -> int | None:
        if sluid not in self._jobs and sluid not in self._unknown:
            self._jobs |= jobs_of_sluids(self._procfs)
            for oldest in list(self._jobs)[:-_MOST_KNOWN]:
                del self._jobs[oldest]
            if sluid not in self._jobs:
                self._unknown.add(sluid)
        return self._jobs.get(sluid)


_MOST_KNOWN = 1000


def scan(procfs: Path, known: KnownJobs | None = None) -> Iterator[JobProcess]:
    """Every live process of every job on this node. Raises ``TimeoutError`` at the end if a user's
    processes did not answer."""
    jobs = known or KnownJobs(procfs)
    jobs.begin()
    return each(procfs, lambda pid: read_process(pid, procfs, jobs))


def read_process(pid: int, procfs: Path, known: KnownJobs | None = None) -> JobProcess | None:
    """The process, if it is alive and belongs to a job."""
    state = process_state(pid, str(procfs))
    if state is None or state[0] in "ZX":
        return None
    folder = procfs / str(pid)
    cgroup = step_cgroup.find(_text(folder / "cgroup"))
    env = _environment(folder)
    proven = cgroup.job if cgroup else None
    if cgroup and cgroup.sluid:
        proven = (known or KnownJobs(procfs)).job(cgroup.sluid)
    job = kernel_files.whole(env.get("SLURM_JOB_ID", "")) if proven is None else proven
    uid = uid_of(folder)
    if uid is None or job is None:
        return None
    # A task of a het job is in the cgroup of its component, but its environment names the leader. Both
    # belong to the same job.
    step = cgroup.step if cgroup and cgroup.step else env.get("SLURM_STEP_ID", "")
    number = kernel_files.whole(step)
    restarts = kernel_files.whole(env.get("SLURM_RESTART_COUNT", "0"))
    return JobProcess(
        pid=pid,
        start=state[1],
        start_s=state[1] / os.sysconf("SC_CLK_TCK"),
        uid=uid,
        job=job,
        step=step if number is not None and number < _PSEUDO_STEP else "",
        restarts=restarts if "SLURM_JOB_ID" in env else None,
        by_cgroup=proven is not None,
        command=_command(folder),
        env={
            name: env[name] if len(env[name]) <= _VALUE_CHARS else _TOO_LONG
            for name in _ENV[3:]
            if name in env
        },
    )


_PSEUDO_STEP = 0xFFFFFFF0
"""Slurm numbers its own pseudo steps (batch, extern, interactive) down from 2^32."""


def end(request: End, procfs: Path) -> Iterator[Fate]:
    """End the processes and report the result for each. Takes at most twice the grace time."""
    targets = [process for process in request.processes if _same(process, procfs)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in targets:
            _signal(process, number, procfs)
        deadline = time.monotonic() + request.grace_s
        while targets and time.monotonic() < deadline:
            targets = [process for process in targets if _alive(process, procfs)]
            if targets:
                select.select([], [], [], _POLL_S)
    for process in request.processes:
        state = process_state(process.pid, str(procfs))
        alive = state is not None and state[1] == process.start and state[0] not in "ZX"
        yield Fate(
            pid=process.pid,
            start=process.start,
            gone=not alive,
            state=state[0] if alive and state is not None else "",
        )


def _signal(process: JobProcess, number: signal.Signals, procfs: Path) -> None:
    """Send the signal through a pidfd that is opened before the process is checked again, so that
    another process that reuses the pid never receives it."""
    send(process.pid, number, lambda: _same(process, procfs))


def _alive(process: JobProcess, procfs: Path) -> bool:
    state = process_state(process.pid, str(procfs))
    return state is not None and state[1] == process.start and state[0] not in "ZX"


def _same(process: JobProcess, procfs: Path) -> bool:
    """Whether it is still the same process, of the same job and user."""
    if process.uid == 0:
        return False
    now = read_process(process.pid, procfs)
    known = (process.start, process.uid, process.job)
    return now is not None and (now.start, now.uid, now.job) == known


def _environment(folder: Path) -> dict[str, str]:
    try:
        raw = environment(folder)
    except OSError:
        return {}
    if b"SLURM_JOB_ID=" not in raw:
        return {}
    pairs = (item.partition("=") for item in raw.decode(errors="replace").split("\0"))
    return {name: value for name, equals, value in pairs if equals and name in _ENV}


def _command(folder: Path) -> str:
    words = _text(folder / "cmdline").replace("\0", " ").strip() or _text(folder / "comm").strip()
    plain = "".join(char if char.isprintable() else "?" for char in words)
    return plain[:_COMMAND_CHARS]


def _text(path: Path) -> str:
    """The first part of a file; a process decides how long its own files (the command line) are."""
    return kernel_files.text(str(path))
