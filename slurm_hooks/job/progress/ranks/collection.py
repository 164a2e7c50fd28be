"""Collects what the ranks of a job that hangs do, from all its nodes, and keeps it in the job's folder."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.text import printable
from slurm_hooks.job.progress.ranks.report import Collected, read
from slurm_hooks.job.step.kill_tasks import AttemptId
from slurm_hooks.job.step.overlap_step import environment, overlapping, python_code

_ON_NODE = "slurm_hooks.job.progress.ranks.on_node"
_ABORT_AFTER_S = 8.0
"""From the start of the collection to SIGABRT: all nodes have sampled their ranks before."""
_MARGIN_S = 1.0
_TIMEOUT_S = 45.0
_POLL_S = 0.2
_MAX_BYTES = 8 << 20
_MAX_STACK_BYTES = 4 << 20


def collect(
    attempt: AttemptId, nodes: Sequence[str], goes_on: Callable[[], bool]
) -> Collected | None:
    """Asks all nodes, and then makes Python programs print their stacks, which ends them. Takes some ten
    seconds, 45 at most. A node that cannot start the program in time is missing in the answer.

    None: meanwhile the job ``goes_on``, and nothing has been done to it.
    """
    abort_at = time.time() + _ABORT_AFTER_S
    argv = overlapping(attempt.job_id, max(1, len(nodes)))
    argv += python_code(
        _ON_NODE,
        [str(attempt.job_id), attempt.journal, str(attempt.attempt), f"{abort_at:.3f}"],
    )
    null = subprocess.DEVNULL
    with tempfile.TemporaryFile() as output:
        env = environment(os.environ)
        try:
            srun = subprocess.Popen(argv, env=env, stdin=null, stdout=output, stderr=null)
        except OSError:
            return Collected()
        if _went_on(srun, goes_on, abort_at):
            return None
        output.seek(0)
        lines = output.read(_MAX_BYTES).decode("utf-8", "replace").splitlines()
    return read(lines, frozenset(nodes))


def _went_on(srun: subprocess.Popen[bytes], goes_on: Callable[[], bool], abort_at: float) -> bool:
    """Waits for srun. True: it was stopped before ``abort_at``, since the job goes on."""
    end = time.monotonic() + _TIMEOUT_S
    while srun.poll() is None:
        may_stop = time.time() < abort_at - _MARGIN_S
        stop = may_stop and goes_on()
        if stop or time.monotonic() > end:
            srun.kill() if not stop else srun.terminate()
            srun.wait()
            return stop
        time.sleep(_POLL_S)
    return False


def path_of(journal: Path, attempt: AttemptId) -> Path:
    """Beside the journal."""
    return journal.with_name(f"job-{attempt.job_id}-attempt-{attempt.attempt}-hang.txt")


def save(path: Path, title: str, collected: Collected, nodes: Sequence[str], output: bytes) -> None:
    """Writes the page: one line for each rank, then ``output``, what was printed meanwhile, with the stacks
    of Python programs. Raises OSError."""
    lines = [title, "", *(report.text() for report in collected.ranks)]
    silent = sorted(set(nodes) - collected.answered)
    lines += [f"{node}: no answer" for node in silent]
    text = "".join(f"{printable.line(line)}\n" for line in lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(fd, "wb") as file:
        file.write(text + b"\n" + output)


class Tap:
    """Keeps what the job prints from ``start`` on, 4 MiB at most."""

    def __init__(self) -> None:
        self._kept: bytearray | None = None

    def start(self) -> None:
        self._kept = bytearray()

    def take(self) -> bytes:
        """What was printed since ``start``."""
        kept, self._kept = self._kept, None
        return bytes(kept or b"")

    def __call__(self, data: bytes) -> None:
        kept = self._kept
        if kept is not None:
            kept += data[: max(0, _MAX_STACK_BYTES - len(kept))]
