"""Collects what the ranks of a job do that hangs or of which a rank has failed, from its nodes, and keeps it in the
job's folder."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.slurm.hostlist import compress
from holdfast.text import printable
from slurm_hooks.job.progress.ranks import flight_dump, on_node
from slurm_hooks.job.progress.ranks.report import Collected, read
from slurm_hooks.job.step.kill_tasks import AttemptId
from slurm_hooks.job.step.overlap_step import environment, overlapping, python_code

_ABORT_AFTER_S = 8.0
"""From the start of the collection to SIGABRT: all nodes have sampled their ranks before."""
_MARGIN_S = 1.0
_TIMEOUT_S = 45.0
_POLL_S = 0.2
_SOON_S = 0.05
_END_S = 0.5
_KEPT_ATTEMPTS = 3
"""Flight recorder dumps of so many attempts of a job are kept: each may have hundreds of MiB."""
_MAX_BYTES = 8 << 20
_MAX_STACK_BYTES = 4 << 20


def collect(
    attempt: AttemptId, nodes: Sequence[str], goes_on: Callable[[], bool], age_s: float
) -> Collected | None:
    """Asks all nodes, and then makes Python programs print their stacks, which ends them. Takes some ten
    seconds, 45 at most. A node that cannot start the program in time is missing in the answer.

    None: meanwhile the job ``goes_on``, and nothing has been done to it. ``age_s``: how old the attempt is.
    """
    abort_at = time.time() + _ABORT_AFTER_S

    def wait(srun: subprocess.Popen[bytes]) -> bool:
        return not _went_on(srun, goes_on, abort_at)

    return _ask(attempt, nodes, f"{abort_at:.3f}", age_s, wait)


def collect_soon(
    attempt: AttemptId,
    nodes: Sequence[str],
    is_over: Callable[[], bool],
    age_s: float,
    *,
    abort: bool,
) -> Collected:
    """After a rank's failure: asks these nodes until ``is_over``, and returns what has arrived by then.
    ``abort``: Python programs print their stacks, which ends them."""

    def wait(srun: subprocess.Popen[bytes]) -> bool:
        while srun.poll() is None:
            if is_over():
                srun.terminate()
                _reaped(srun)
            time.sleep(_SOON_S)
        return True

    how = on_node.NOW if abort else on_node.NEVER
    return _ask(attempt, nodes, how, age_s, wait) or Collected()


def _reaped(srun: subprocess.Popen[bytes]) -> None:
    try:
        srun.wait(_END_S)
    except subprocess.TimeoutExpired:
        srun.kill()
        srun.wait()


def _ask(
    attempt: AttemptId,
    nodes: Sequence[str],
    abort: str,
    age_s: float,
    wait: Callable[[subprocess.Popen[bytes]], bool],
) -> Collected | None:
    argv = overlapping(attempt.job_id, max(1, len(nodes)), nodes=compress(sorted(nodes)))
    words = [str(attempt.job_id), attempt.journal, str(attempt.attempt), abort, f"{age_s:.0f}"]
    argv += python_code(on_node.__name__, words)
    null = subprocess.DEVNULL
    with tempfile.TemporaryFile() as output:
        env = environment(os.environ)
        try:
            srun = subprocess.Popen(
                argv, env=env, stdin=null, stdout=output, stderr=null, start_new_session=True
            )
        except OSError:
            return Collected()
        if not wait(srun):
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


def path_of(attempt: AttemptId, what: str) -> Path:
    """Beside the journal. ``what``: ``hang`` or ``failure``."""
    name = f"job-{attempt.job_id}-attempt-{attempt.attempt}-{what}.txt"
    return Path(attempt.journal).with_name(name)


def remove_old_dumps(attempt: AttemptId) -> None:
    """Removes copies of flight recorder dumps of earlier attempts of the job. Raises OSError."""
    for number in range(attempt.attempt - _KEPT_ATTEMPTS, 0, -1):
        pattern = flight_dump.copy_of(replace(attempt, attempt=number), "*")
        found = list(pattern.parent.glob(pattern.name))
        for path in found:
            path.unlink(missing_ok=True)
        if not found:
            return


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
