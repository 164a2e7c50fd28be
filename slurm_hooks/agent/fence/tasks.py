"""The tasks of attempts on this node, as a worker sees them that runs as their user."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from slurm_hooks.job.fence.newer import Run
from slurm_hooks.node import kernel_files, step_cgroup
from slurm_hooks.node.process import environment, process_state, send
from slurm_hooks.node.process_scan import uid_of

_MOST = 64
"""Attempts of one user that are kept in memory."""
_LONGEST_PATH = 4096


class Attempt(NamedTuple):
    """What the environment of its processes says."""

    job: int
    journal: str
    number: int
    run: Run


class Pid(NamedTuple):
    """``start``, in ticks since boot, distinguishes it from a later process with the same number."""

    pid: int
    start: int


@dataclass(slots=True)
class Tasks:
    """The processes of one attempt. ``steps``: cgroups of its steps, in which a process counts that has
    overwritten its environment."""

    pids: set[Pid] = field(default_factory=set)
    steps: set[str] = field(default_factory=set)


class Scan:
    """Reads each process of the user once."""

    def __init__(self, uid: int, jobs: Collection[int], procfs: Path) -> None:
        self._uid, self._jobs, self._procfs = uid, frozenset(jobs), procfs
        self._known: dict[Pid, Attempt | None] = {}

    def attempts(self) -> dict[Attempt, Tasks]:
        """The attempts with live processes here. May wait for a process (``process.environment``)."""
        found: dict[Attempt, Tasks] = {}
        live: dict[Pid, Attempt | None] = {}
        for pid in _of_user(self._uid, self._procfs):
            attempt = self._known.get(pid) if pid in self._known else self._read(pid)
            live[pid] = attempt = attempt if attempt in found or len(found) < _MOST else None
            if attempt is not None:
                tasks = found.setdefault(attempt, Tasks())
                tasks.pids.add(pid)
                tasks.steps |= {_step(pid, self._procfs)} - {""}
        self._known = live
        return found

    def _read(self, pid: Pid) -> Attempt | None:
        try:
            raw = environment(self._procfs / str(pid.pid))
        except OSError:
            return None
        env = dict(item.split(b"=", 1) for item in raw.split(b"\0") if b"=" in item)
        job, number, restarts, started_at = (
            kernel_files.whole(env.get(name, b"").decode(errors="replace"))
            for name in (
                *(b"SLURM_JOB_ID", b"HOLDFAST_ATTEMPT"),
                *(b"SLURM_RESTART_COUNT", b"SLURM_JOB_START_TIME"),
            )
        )
        journal = os.fsdecode(env.get(b"HOLDFAST_JOURNAL", b""))
        if job not in self._jobs or job is None or number is None:
            return None
        if not journal.startswith("/") or len(journal) > _LONGEST_PATH:
            return None
        # Slurm leaves the restart count unset in the first run.
        return Attempt(job, journal, number, Run(restarts or 0, float(started_at or 0)))


def signal_all(uid: int, tasks: Tasks, number: int, state: str, procfs: Path) -> int:
    """Sends a signal to the processes of an attempt, but for those in one of these states. How many got it.

    Reads nothing that waits for a process.
    """
    count = 0
    for pid in _of_user(uid, procfs):
        if pid not in tasks.pids and _step(pid, procfs) not in tasks.steps:
            continue
        now = process_state(pid.pid, str(procfs))
        if now is None or now[0] in state:
            continue
        try:
            count += send(pid.pid, number, partial(_is, pid, procfs))
        except PermissionError:
            continue  # a setuid program: not the user's alone
    return count


def _of_user(uid: int, procfs: Path) -> Iterator[Pid]:
    own = os.getpid()
    for name in os.listdir(procfs):  # noqa: PTH208 - names alone are wanted
        if name.isdigit() and int(name) != own and uid_of(procfs / name) == uid:
            state = process_state(int(name), str(procfs))
            if state is not None and state[0] not in "ZX":
                yield Pid(int(name), state[1])


def _step(pid: Pid, procfs: Path) -> str:
    """The cgroup of the process's step; empty: none, or the batch script's."""
    found = step_cgroup.find(kernel_files.text(str(procfs / str(pid.pid) / "cgroup")))
    return found.path if found and found.step.isdigit() else ""


def _is(pid: Pid, procfs: Path) -> bool:
    now = process_state(pid.pid, str(procfs))
    return now is not None and now[1] == pid.start
