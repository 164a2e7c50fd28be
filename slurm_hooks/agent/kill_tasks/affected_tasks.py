"""Kills the tasks that cannot continue after a fault: tasks of jobs under ``holdfast run``,
identified by their environment.

Runs only inside a contained worker: reading another process's environment takes a lock of its
memory, which a process stuck in the driver may hold for ever.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slurm_hooks.agent.kill_tasks.recorders import Recorders
from slurm_hooks.node import kernel_files
from slurm_hooks.node.process import (
    ask_for_stacks,
    catches,
    environment,
    evidence_of,
    process_state,
    send,
)
from slurm_hooks.node.process_scan import each

_OURS = b"HOLDFAST_ATTEMPT="
_STEP = b"SLURM_STEP_ID="
_NUMBER_CHARS = 20
"""Of a job's or a step's number, which is the user's text."""
_STACKS_S = 1.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksToKill:
    """What the fault affects. ``gpus``: NVML indices of the faulty GPUs; empty: the whole node.

    ``uuids`` are the same GPUs' UUIDs, for environments that name GPUs by UUID.
    """

    gpus: frozenset[int] = frozenset()
    uuids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledTask:
    """One task that received SIGKILL. ``did``: its state before that, and where in the kernel it slept.
    ``stacks``: it could print its stacks first."""

    pid: int
    job: str
    step: str
    did: str
    stacks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A task to kill. ``start``: in ticks since boot. ``handles``: it has a handler for SIGABRT.

    Nothing of its environment is kept but two numbers: it is the user's, and so is the number of tasks.
    """

    pid: int
    start: int
    job: str
    step: str
    did: str
    handles: bool

    def is_it(self, procfs: Path) -> bool:
        """Whether the pid is still that of the process whose environment was read."""
        now = process_state(self.pid, str(procfs))
        return now is not None and now[1] == self.start

    def runs(self, procfs: Path) -> bool:
        now = process_state(self.pid, str(procfs))
        return now is not None and now[1] == self.start and now[0] not in "ZX"

    def killed(self, *, stacks: bool) -> KilledTask:
        return KilledTask(pid=self.pid, job=self.job, step=self.step, did=self.did, stacks=stacks)


def open_kill(procfs: Path = Path("/proc")) -> Callable[[object], Iterator[KilledTask]]:
    """Answers a TasksToKill with the tasks that were killed.

    Those that can print their stacks do so first, and those with torch's flight recorder write a dump before
    that, which the launcher keeps. Both take three seconds at most.
    """

    def serve(request: object) -> Iterator[KilledTask]:
        if not isinstance(request, TasksToKill):
            raise TypeError(f"expected TasksToKill, got {request!r}")
        later: list[_Task] = []
        recorders = Recorders(procfs)
        late: TimeoutError | None = None
        try:
            for task in each(procfs, lambda pid: _affected_task(procfs, pid, request, recorders)):
                if task.handles:
                    later.append(task)
                elif send(task.pid, signal.SIGKILL, partial(task.is_it, procfs)):
                    yield task.killed(stacks=False)
        except TimeoutError as error:
            late = error
        printing = _have_printed(procfs, later, recorders)
        for task in later:
            if send(task.pid, signal.SIGKILL, partial(task.is_it, procfs)) or task in printing:
                yield task.killed(stacks=task in printing)
        if late is not None:
            raise late

    return serve


def _have_printed(procfs: Path, tasks: Sequence[_Task], recorders: Recorders) -> list[_Task]:
    """Has these tasks write what they do, and waits until they have ended, a second at most. Returns those
    that were asked for their stacks."""
    if not tasks:
        return []
    from slurm_hooks.agent.kill_tasks import flight_dumps  # noqa: PLC0415 - the agent stays small

    flight_dumps.request(procfs, recorders)
    asked = [
        task for task in tasks if ask_for_stacks(procfs, task.pid, partial(task.is_it, procfs))
    ]
    until = time.monotonic() + _STACKS_S
    while any(task.runs(procfs) for task in asked) and time.monotonic() < until:
        time.sleep(_POLL_S)
    return asked


def _affected_task(
    procfs: Path, pid: int, to_kill: TasksToKill, recorders: Recorders
) -> _Task | None:
    task = task_of(procfs, pid)
    if task is None:
        return None
    start, env = task
    if not affected(env, to_kill):
        return None
    handles = catches(procfs, pid, signal.SIGABRT)
    if handles:
        recorders.add(pid, env)
    job, step = (env.get(name, "")[:_NUMBER_CHARS] for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    did = evidence_of(pid, str(procfs))
    return _Task(pid=pid, start=start, job=job, step=step, did=did, handles=handles)


def task_of(procfs: Path, pid: int) -> tuple[int, dict[str, str]] | None:
    """Start time (ticks since boot) and initial environment of a process, if it belongs to a step
    of a job under ``holdfast run``; else None."""
    state = process_state(pid, str(procfs))
    try:
        raw = environment(procfs / str(pid))
    except OSError:
        return None
    if state is None or _OURS not in raw or _STEP not in raw:
        return None
    env = dict(
        item.split("=", 1) for item in raw.decode(errors="replace").split("\0") if "=" in item
    )
    if "HOLDFAST_ATTEMPT" not in env or "SLURM_STEP_ID" not in env:
        return None
    return state[1], env


def affected(env: Mapping[str, str], to_kill: TasksToKill) -> bool:
    """True if the task may use a faulty GPU. Unknown counts as affected, because its job would hang
    otherwise. The user can set ``env`` to anything, so this is fast for any content.
    """
    if not to_kill.gpus:
        return True
    # Slurm's own lists hold the node's indices; CUDA's may be renumbered inside a device cgroup.
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"):
        words = [word for word in env.get(name, "").replace(":", ",").split(",") if word.strip()]
        if words:
            return _uses(words, to_kill)
    return True


def _uses(words: list[str], to_kill: TasksToKill) -> bool:
    for word in words:
        if word.startswith("GPU-"):
            if word in to_kill.uuids or not to_kill.uuids:
                return True
            continue
        first, _, last = word.partition("-")
        low, high = kernel_files.whole(first), kernel_files.whole(last or first)
        if low is None or high is None or any(low <= gpu <= high for gpu in to_kill.gpus):
            return True
    return False
