"""What a failed attempt lost, for the job's log: work since the last checkpoint, and overwritten
output.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.past_attempts import JournalAttempt
from slurm_hooks.job.step.run_step import StepEnd

MIN_REPORTED_S = 10.0
"""The log does not mention a smaller loss, as that of a command that fails at once."""

_ATTEMPT = b"holdfast: attempt "
_MAX_LOG_BYTES = 8 << 20
"""A log that was truncated for this run is far smaller when the launcher starts."""


def lost_s(end: StepEnd, newest: Checkpoint | None) -> float:
    """Seconds of the step since its last checkpoint; the whole step if it wrote none.

    The time of the checkpoint is by the file server's clock, so it is limited to the step's run time.
    """
    since = max(end.started_at, newest.changed_at) if newest else end.started_at
    return max(0.0, end.ended_at - since)


def loss_text(seconds: float, gpus: int, newest: Checkpoint | None) -> str:
    """One line: time and GPU hours (``gpus`` of all nodes; 0: not known) since the checkpoint."""
    since = "since the start: there is no checkpoint"
    if newest is not None:
        step = "" if newest.step is None else f" (step {newest.step})"
        since = f"since the last checkpoint{step}"
    gpu_hours = f", {gpus * seconds / 3600:.2f} GPU hours" if gpus else ""
    return f"work lost: {_duration(seconds)}{gpu_hours} {since}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def attempts_without_checkpoint(
    history: Sequence[JournalAttempt], newest: Checkpoint | None
) -> int:
    """How many attempts ran, this one included, if none of them left a checkpoint; else 0."""
    if newest is not None or any(attempt.resumed_path for attempt in history):
        return 0
    return 1 + sum(attempt.started for attempt in history)


def is_output_overwritten(descriptor: int = 2) -> bool:
    """True when the log of a requeued job has no line of an earlier attempt: Slurm truncated it.

    Slurm shows a job's open mode neither in the environment nor in ``scontrol show job``, so this
    reads the file. False where it is not a regular file or cannot be read.
    """
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_LOG_BYTES:
            return False
        return _ATTEMPT not in Path(f"/proc/self/fd/{descriptor}").read_bytes()
    except OSError:
        return False
