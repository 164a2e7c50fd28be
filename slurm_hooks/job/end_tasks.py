"""SIGKILL for this user's own tasks of one attempt of a job on this node: ``python -m
slurm_hooks.job.end_tasks JOB JOURNAL ATTEMPT [STEP …]``.

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

from slurm_hooks.job.overlap import python_code


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


def processes(procfs: Path, which: Which) -> Iterator[tuple[int, str | None]]:
    """The attempt's processes on this node: pid, and step (``None``: below the batch script)."""
    for entry in procfs.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            raw = (entry / "environ").read_bytes()
        except OSError:
            continue  # another user's, or gone
        environ = dict(pair.split(b"=", 1) for pair in raw.split(b"\0") if b"=" in pair)
        if which.started(environ):
            step = environ.get(b"SLURM_STEP_ID")
            yield int(entry.name), None if step is None else os.fsdecode(step)


def tasks(procfs: Path, which: Which, own_step: str, steps: Collection[str] = ()) -> Iterator[int]:
    """Pids of the attempt's tasks: those of ``steps``, or of all but ``own_step``."""
    for pid, step in processes(procfs, which):
        if step is not None and step != own_step and (not steps or step in steps):
            yield pid


def clear_away(
    which: Which, grace_s: float, sleep: Callable[[float], None], procfs: Path = Path("/proc")
) -> None:
    """Ends what an attempt left behind on this node; SIGTERM first: an orphaned srun then ends its
    step. Returns when nothing is left, or ``grace_s`` later, with SIGKILL."""
    _send((pid for pid, _ in processes(procfs, which)), signal.SIGTERM)
    end = time.monotonic() + grace_s
    while any(processes(procfs, which)) and time.monotonic() < end:
        sleep(0.05)
    _send((pid for pid, _ in processes(procfs, which)), signal.SIGKILL)


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


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
