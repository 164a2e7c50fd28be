"""Ends the tasks that a fault has to_kill: those of jobs under ``holdfast run``, told by their
environment.

Runs only inside a contained worker: reading another process's environment takes a lock of its
memory, and a process stuck in the driver may hold it for ever.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.node.process import environment, process_state, send
from slurm_hooks.node.process_scan import each
from slurm_hooks.probes import files

_OURS = b"HOLDFAST_ATTEMPT="
_STEP = b"SLURM_STEP_ID="


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksToKill:
    """What the fault hit. ``gpus`` holds NVML indices of the bad ones, empty: the whole node.

    ``uuids`` are the same GPUs' UUIDs, for environments that name them so.
    """

    gpus: frozenset[int] = frozenset()
    uuids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledTask:
    """One task that got SIGKILL."""

    pid: int
    job: str
    step: str


def open_kill(procfs: Path = Path("/proc")) -> Callable[[object], Iterator[KilledTask]]:
    """Answers a TasksToKill with the tasks that it ended."""

    def serve(request: object) -> Iterator[KilledTask]:
        if not isinstance(request, TasksToKill):
            raise TypeError(f"expected TasksToKill, got {request!r}")
        yield from each(procfs, lambda pid: _end(procfs, pid, request))

    return serve


def _end(procfs: Path, pid: int, to_kill: TasksToKill) -> KilledTask | None:
    """SIGKILL for the process, if it is a task that the fault hit."""
    task = task_of(procfs, pid)
    if task is None:
        return None
    start, env = task
    if not affected(env, to_kill) or not send(pid, signal.SIGKILL, _same(procfs, pid, start)):
        return None
    return KilledTask(pid=pid, job=env.get("SLURM_JOB_ID", ""), step=env["SLURM_STEP_ID"])


def _same(procfs: Path, pid: int, start: int) -> Callable[[], bool]:
    """Asks whether the pid is still that of the process whose environment was read."""

    def same() -> bool:
        now = process_state(pid, str(procfs))
        return now is not None and now[1] == start

    return same


def task_of(procfs: Path, pid: int) -> tuple[int, dict[str, str]] | None:
    """The start time in ticks since boot, and the initial environment, of a process of a step of a job
    under ``holdfast run``; None for any other process."""
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
    """True when the task may use a bad GPU. Unknown counts as affected: its job would hang
    otherwise. ``env`` is the user's to write: whatever it holds, this takes no time.
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
        low, high = files.whole(first), files.whole(last or first)
        if low is None or high is None or any(low <= gpu <= high for gpu in to_kill.gpus):
            return True
    return False
