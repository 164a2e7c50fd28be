"""Chooses the checkpoint that an attempt starts from, and reports it in the job's log and journal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import Choice, last_good
from slurm_hooks.job.checkpoints.names import some
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.log import say
from slurm_hooks.job.past_attempts import JournalAttempt, evidence_on_checkpoints

_MAX_SHOWN = 5


def choose(
    folder: Path, history: Sequence[JournalAttempt], journal: Journal, number: int
) -> Choice:
    """The last good checkpoint for attempt ``number``. A folder that cannot be listed counts as an
    unreadable checkpoint."""
    try:
        choice = last_good(
            folder, now=time.time(), sleep=time.sleep, evidence=evidence_on_checkpoints(history)
        )
    except OSError as error:
        unreadable = Checkpoint(
            path=folder,
            framework="",
            step=None,
            changed_at=0.0,
            reason=f"cannot be listed: {error.strerror}",
            unreadable=True,
        )
        choice = Choice(chosen=None, rejected=(unreadable,))
    journal.add(
        "checkpoint",
        attempt=number,
        chosen=_record(choice.chosen) if choice.chosen else None,
        rejected=[_record(checkpoint) for checkpoint in choice.rejected],
    )
    return choice


def report(choice: Choice, folder: Path, title: str) -> None:
    """Writes to the log what is resumed and why newer checkpoints were rejected, in a few lines."""
    for checkpoint in choice.rejected[:_MAX_SHOWN]:
        say(f"rejected {_name(checkpoint.path, folder)}: {checkpoint.reason}")
    if len(choice.rejected) > _MAX_SHOWN:
        more = len(choice.rejected) - _MAX_SHOWN
        say(f"rejected {more} more checkpoints; list them with: holdfast checkpoints {folder}")
    if choice.unreadable:
        say(f"not started: cannot read the checkpoints in {folder}; their owner must grant r-x")
        return
    if choice.chosen:
        step = "" if choice.chosen.step is None else f" (step {choice.chosen.step})"
        where = f"from {choice.chosen.path}{step}"
    else:
        where = f"from the beginning: {_why_none(choice)}"
    say(f"{title} starts {where}")


def _why_none(choice: Choice) -> str:
    if choice.rejected:
        return "no valid checkpoint"
    if choice.unrecognised:
        return f"no checkpoint is recognised among {some(choice.unrecognised)}"
    return "no checkpoint yet"


def _name(path: Path, folder: Path) -> str:
    """The path below ``folder``, so that checkpoints of several runs differ."""
    return str(path.relative_to(folder)) if folder in path.parents else path.name


def _record(checkpoint: Checkpoint) -> dict[str, object]:
    return {
        "path": str(checkpoint.path),
        "framework": checkpoint.framework,
        "step": checkpoint.step,
        "reason": checkpoint.reason,
    }
