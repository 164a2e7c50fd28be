"""Kills the tasks that cannot continue after a fault: tasks of jobs under ``holdfast run``,
identified by their environment.

Runs only inside a contained worker: reading another process's environment takes a lock of its
memory, which a process stuck in the driver may hold for ever.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.node import kernel_files
from slurm_hooks.node.process import environment, evidence_of, process_state, send
from slurm_hooks.node.process_scan import each

_OURS = b"HOLDFAST_ATTEMPT="
_STEP = b"SLURM_STEP_ID="
_NUMBER_CHARS = 20
"""Of a job's or a step's number, which is the user's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksToKill:
    """What the fault affects. ``gpus``: NVML indices of the faulty GPUs; empty: the whole node.

    ``uuids`` are the same GPUs' UUIDs, for environments that name GPUs by UUID.
    """

    gpus: frozenset[int] = frozenset()
    uuids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledTask:
    """One task that received SIGKILL. ``did``: its state before that, and where in the kernel it slept."""

    pid: int
    job: str
    step: str
    did: str


def open_kill(procfs: Path = Path("/proc")) -> Callable[[object], Iterator[KilledTask]]:
    """Answers a TasksToKill with the tasks that were killed."""

    def serve(request: object) -> Iterator[KilledTask]:
        if not isinstance(request, TasksToKill):
            raise TypeError(f"expected TasksToKill, got {request!r}")
        yield from each(procfs, lambda pid: _kill(procfs, pid, request))

    return serve


def _kill(procfs: Path, pid: int, to_kill: TasksToKill) -> KilledTask | None:
    """Sends SIGKILL to the process if it is a task that the fault affects."""
    task = task_of(procfs, pid)
    if task is None:
        return None
    start, env = task
    if not affected(env, to_kill):
        return None
    did = evidence_of(pid, str(procfs))
    if not send(pid, signal.SIGKILL, _same(procfs, pid, start)):
        return None
    job, step = (env.get(name, "")[:_NUMBER_CHARS] for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    return KilledTask(pid=pid, job=job, step=step, did=did)


def _same(procfs: Path, pid: int, start: int) -> Callable[[], bool]:
    """Whether the pid is still that of the process whose environment was read."""

    def same() -> bool:
        now = process_state(pid, str(procfs))
        return now is not None and now[1] == start

    return same


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
