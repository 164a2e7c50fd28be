"""SIGKILL for this user's own tasks of one attempt of a job on this node: ``python -m
slurm_hooks.job.step.kill_tasks JOB JOURNAL ATTEMPT [STEP …]``.

The launcher runs it on each node of the job by ``srun --overlap``. While slurmstepd waits for
KillWait (180 s on Soperator) it answers no ``scancel --signal=KILL JOB.STEP`` (Slurm 24.11: "Socket
timed out"), and a rank that sits in a collective never runs its SIGTERM handler. The kernel asks
neither.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.job.step.overlap_step import python_code
from slurm_hooks.node.process import environment, process_state, send


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """The attempt whose processes are meant. A script may run several launchers side by side, each
    with a journal of its own; and what ends one attempt must not reach the next."""

    job_id: int
    journal: str
    attempt: int

    def started(self, environ: Mapping[bytes, bytes]) -> bool:
        return (
            environ.get(b"SLURM_JOB_ID") == b"%d" % self.job_id
            and environ.get(b"HOLDFAST_JOURNAL") == os.fsencode(self.journal)
            and environ.get(b"HOLDFAST_ATTEMPT") == b"%d" % self.attempt
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A process of the attempt. ``start`` in ticks since boot tells it from a later one with its pid;
    ``step`` is ``None`` below the batch script."""

    pid: int
    start: int
    step: str | None


def processes(procfs: Path, which: Which) -> Iterator[Found]:
    """The attempt's processes on this node."""
    for entry in procfs.iterdir():
        if not entry.name.isdigit():
            continue
        state = process_state(int(entry.name), str(procfs))
        try:
            raw = environment(entry)
        except OSError:
            continue  # another user's, or gone
        environ = dict(pair.split(b"=", 1) for pair in raw.split(b"\0") if b"=" in pair)
        if state is not None and which.started(environ):
            step = environ.get(b"SLURM_STEP_ID")
            yield Found(int(entry.name), state[1], None if step is None else os.fsdecode(step))


def tasks(
    procfs: Path, which: Which, own_step: str, steps: Collection[str] = ()
) -> Iterator[Found]:
    """The attempt's tasks: those of ``steps``, or of all but ``own_step``."""
    for one in processes(procfs, which):
        if one.step is not None and one.step != own_step and (not steps or one.step in steps):
            yield one


def clear_away(
    which: Which, grace_s: float, sleep: Callable[[float], None], procfs: Path = Path("/proc")
) -> None:
    """Ends what an attempt left behind on this node; SIGTERM first: an orphaned srun then ends its
    step. Returns when nothing is left, or ``grace_s`` later, with SIGKILL."""
    _send(processes(procfs, which), signal.SIGTERM, procfs)
    end = time.monotonic() + grace_s
    while any(processes(procfs, which)) and time.monotonic() < end:
        sleep(0.05)
    _send(processes(procfs, which), signal.SIGKILL, procfs)


def _send(found: Iterable[Found], number: int, procfs: Path = Path("/proc")) -> None:
    for one in found:
        with suppress(PermissionError):
            send(one.pid, number, lambda one=one: _is(one, procfs))  # type: ignore[misc]


def _is(one: Found, procfs: Path) -> bool:
    now = process_state(one.pid, str(procfs))
    return now is not None and now[1] == one.start


def command(which: Which, steps: Collection[str] = ()) -> list[str]:
    """The command line for a node of the job."""
    return python_code(
        __name__, [str(which.job_id), which.journal, str(which.attempt), *sorted(steps)]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Ends the tasks and exits 0, also when there was none."""
    job, journal, attempt, *steps = sys.argv[1:] if argv is None else argv
    which = Which(job_id=int(job), journal=journal, attempt=int(attempt))
    _send(tasks(Path("/proc"), which, os.environ.get("SLURM_STEP_ID", ""), steps), signal.SIGKILL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
