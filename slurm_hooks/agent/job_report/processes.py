"""Processes of jobs on this node: found by what the kernel says of them, ended on demand.

Runs only inside a contained worker: reading a process's environment takes a lock of its memory, and
a process stuck in the driver may hold it for ever.

A process belongs to a job by its cgroup (``…/job_4711/…``, which only slurmstepd writes), and where
Slurm keeps no cgroups, by SLURM_JOB_ID in the environment that it was started with. The second is
the user's to write, so a process is only ever ended when it also runs as the job's own user, and
never where that user is root.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_hooks.agent.jobs.kill_tasks import TasksToKill, affected
from slurm_hooks.node.process import environment, process_state, send
from slurm_hooks.node.process_scan import each, uid_of
from slurm_hooks.probes import files

_CGROUP = re.compile(r"/job_([0-9]{1,10})(?:/step_([A-Za-z0-9]+))?(?:/|$)", re.MULTILINE)
_ENV = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "CUDA_VISIBLE_DEVICES",
)
_COMMAND_CHARS = 80
_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProcess:
    """One process of some job.

    ``start_s``   seconds since boot when it began; with ``start`` (the same in clock ticks) it tells
                  the process from a later one with its pid.
    ``restarts``  of the run of the job that it belongs to; None: its environment does not say.
    ``by_cgroup`` the kernel itself says whose it is.
    ``env``       what its environment says of its GPUs.
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
        """Whether it may use this GPU; None: nothing tells."""
        if not self.env:
            return None
        return affected(
            self.env, TasksToKill(gpus=frozenset({gpu}), uuids=frozenset({uuid} if uuid else ()))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Ask for the processes of all jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Ask to end these: SIGTERM, after ``grace_s`` SIGKILL, then as long again to die."""

    processes: tuple[JobProcess, ...]
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a process that was to be ended. ``state`` is the kernel's letter, empty: gone."""

    pid: int
    start: int
    gone: bool
    state: str = ""


def open_processes(procfs: Path = Path("/proc")) -> Callable[[Any], Iterator[Any]]:
    """Answers ``Scan`` with JobProcess items and ``End`` with a Fate for each process."""

    def serve(request: Any) -> Iterator[Any]:
        if isinstance(request, Scan):
            yield from scan(procfs)
        elif isinstance(request, End):
            yield from end(request, procfs)
        else:
            raise TypeError(f"expected Scan or End, got {request!r}")

    return serve


def scan(procfs: Path) -> Iterator[JobProcess]:
    """Every living process of every job on this node. Raises ``TimeoutError`` at the end, where a user's
    processes do not answer."""
    return each(procfs, lambda pid: look(pid, procfs))


def look(pid: int, procfs: Path) -> JobProcess | None:
    """The process, if it is alive and of a job."""
    state = process_state(pid, str(procfs))
    if state is None or state[0] in "ZX":
        return None
    folder = procfs / str(pid)
    cgroup = _CGROUP.search(_text(folder / "cgroup"))
    env = _environment(folder)
    job = files.whole(cgroup[1] if cgroup else env.get("SLURM_JOB_ID", ""))
    uid = uid_of(folder)
    if uid is None or job is None:
        return None
    # A task of a het job is in the cgroup of its component, and its environment names the leader:
    # then the environment is that of the same job all the same.
    step = cgroup[2] if cgroup and cgroup[2] else env.get("SLURM_STEP_ID", "")
    number = files.whole(step)
    restarts = files.whole(env.get("SLURM_RESTART_COUNT", "0"))
    return JobProcess(
        pid=pid,
        start=state[1],
        start_s=state[1] / os.sysconf("SC_CLK_TCK"),
        uid=uid,
        job=job,
        step=step if number is not None and number < _PSEUDO_STEP else "",
        restarts=restarts if "SLURM_JOB_ID" in env else None,
        by_cgroup=cgroup is not None,
        command=_command(folder),
        env={name: env[name] for name in _ENV[3:] if name in env},
    )


_PSEUDO_STEP = 0xFFFFFFF0
"""Slurm counts its own pseudo steps (batch, extern, interactive) from the top of 32 bits."""


def end(request: End, procfs: Path) -> Iterator[Fate]:
    """Ends the processes and tells what became of each. Never longer than twice the grace."""
    targets = [one for one in request.processes if _same(one, procfs)]
    for which in (signal.SIGTERM, signal.SIGKILL):
        for one in targets:
            _signal(one, which, procfs)
        deadline = time.monotonic() + request.grace_s
        while targets and time.monotonic() < deadline:
            targets = [one for one in targets if _alive(one, procfs)]
            if targets:
                select.select([], [], [], _POLL_S)
    for one in request.processes:
        state = process_state(one.pid, str(procfs))
        alive = state is not None and state[1] == one.start and state[0] not in "ZX"
        yield Fate(
            pid=one.pid,
            start=one.start,
            gone=not alive,
            state=state[0] if alive and state is not None else "",
        )


def _signal(one: JobProcess, which: signal.Signals, procfs: Path) -> None:
    """Through a descriptor of the process, opened before it is looked at once more: so no other
    process that got its pid meanwhile is ever hit."""
    send(one.pid, which, lambda: _same(one, procfs))


def _alive(one: JobProcess, procfs: Path) -> bool:
    state = process_state(one.pid, str(procfs))
    return state is not None and state[1] == one.start and state[0] not in "ZX"


def _same(one: JobProcess, procfs: Path) -> bool:
    """Still that process, still of that job and that user."""
    if one.uid == 0:
        return False
    now = look(one.pid, procfs)
    return now is not None and (now.start, now.uid, now.job) == (one.start, one.uid, one.job)


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
    """What a process chose the length of too (its command line): so much of it and no more."""
    return files.text(str(path))
