"""Ends this user's tasks of one attempt of a job on this node by SIGKILL: ``python -m
slurm_hooks.job.step.kill_tasks JOB JOURNAL ATTEMPT [STEP …]``.

The launcher runs it on each node of the job by ``srun --overlap``. While slurmstepd waits for
KillWait (180 s on Soperator) it does not answer ``scancel --signal=KILL JOB.STEP`` (Slurm 24.11:
"Socket timed out"), and a rank inside a collective never runs its SIGTERM handler. SIGKILL from
the kernel needs neither of them.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slurm_hooks.job.step.overlap_step import python_code
from slurm_hooks.node.process import ask_for_stacks, environment, process_state, send

_STACKS_S = 1.0
"""After SIGABRT, for the stacks of Python programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptId:
    """Identifies the processes of one attempt. A script may run several launchers side by side, each
    with its own journal, and ending one attempt must not affect the next."""

    job_id: int
    journal: str
    attempt: int

    def matches(self, environ: Mapping[bytes, bytes]) -> bool:
        return (
            environ.get(b"SLURM_JOB_ID") == b"%d" % self.job_id
            and environ.get(b"HOLDFAST_JOURNAL") == os.fsencode(self.journal)
            and environ.get(b"HOLDFAST_ATTEMPT") == b"%d" % self.attempt
        )


@dataclass(frozen=True, slots=True)
class AttemptProcess:
    """A process of the attempt. ``start``, in ticks since boot, distinguishes it from a later process
    with the same pid; ``step`` is ``None`` below the batch script."""

    pid: int
    start: int
    step: str | None


def processes(procfs: Path, attempt: AttemptId) -> Iterator[AttemptProcess]:
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
        if state is not None and attempt.matches(environ):
            step = environ.get(b"SLURM_STEP_ID")
            name = None if step is None else os.fsdecode(step)
            yield AttemptProcess(int(entry.name), state[1], name)


def tasks(
    procfs: Path, attempt: AttemptId, own_step: str, steps: Collection[str] = ()
) -> Iterator[AttemptProcess]:
    """The attempt's tasks: those of ``steps``, or of all steps except ``own_step``."""
    for process in processes(procfs, attempt):
        step = process.step
        if step is not None and step != own_step and (not steps or step in steps):
            yield process


def end_leftovers(
    attempt: AttemptId, grace_s: float, sleep: Callable[[float], None], procfs: Path = Path("/proc")
) -> None:
    """Ends the processes that an attempt left on this node. SIGTERM comes first, so that an orphaned
    srun ends its step; SIGKILL follows after ``grace_s`` at most."""
    _send(processes(procfs, attempt), signal.SIGTERM, procfs)
    end = time.monotonic() + grace_s
    while any(processes(procfs, attempt)) and time.monotonic() < end:
        sleep(0.05)
    _send(processes(procfs, attempt), signal.SIGKILL, procfs)


def end_here(attempt: AttemptId, procfs: Path = Path("/proc")) -> None:
    """Sends SIGKILL to all processes of the attempt on this node."""
    _send(processes(procfs, attempt), signal.SIGKILL, procfs)


def _send(targets: Iterable[AttemptProcess], number: int, procfs: Path = Path("/proc")) -> None:
    for process in targets:
        with suppress(PermissionError):
            send(process.pid, number, partial(_is_alive, process, procfs))


def _is_alive(process: AttemptProcess, procfs: Path) -> bool:
    now = process_state(process.pid, str(procfs))
    return now is not None and now[1] == process.start


def abort(procfs: Path, targets: Iterable[AttemptProcess]) -> list[AttemptProcess]:
    """Has those processes that can do so print their stacks (``ask_for_stacks``). Returns these processes."""
    sent = []
    for process in targets:
        with suppress(PermissionError):
            if ask_for_stacks(procfs, process.pid, partial(_is_alive, process, procfs)):
                sent.append(process)
    return sent


def end(procfs: Path, targets: Sequence[AttemptProcess]) -> None:
    """SIGKILL for all; those that can print their stacks do so before."""
    printing = abort(procfs, targets)
    _send((process for process in targets if process not in printing), signal.SIGKILL, procfs)
    until = time.monotonic() + _STACKS_S
    while any(_runs(process, procfs) for process in printing) and time.monotonic() < until:
        time.sleep(0.02)
    _send(printing, signal.SIGKILL, procfs)


def _runs(process: AttemptProcess, procfs: Path) -> bool:
    now = process_state(process.pid, str(procfs))
    return now is not None and now[1] == process.start and now[0] not in "ZX"


def command(attempt: AttemptId, steps: Collection[str] = ()) -> list[str]:
    """The command line for a node of the job."""
    return python_code(
        __name__, [str(attempt.job_id), attempt.journal, str(attempt.attempt), *sorted(steps)]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Ends the tasks. Exits 0, also when there was none."""
    job, journal, number, *steps = sys.argv[1:] if argv is None else argv
    attempt = AttemptId(job_id=int(job), journal=journal, attempt=int(number))
    own_step = os.environ.get("SLURM_STEP_ID", "")
    procfs = Path("/proc")
    end(procfs, list(tasks(procfs, attempt, own_step, steps)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
