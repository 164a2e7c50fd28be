"""Chooses the checkpoint that an attempt starts from, and says so in the job's log and journal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import Choice, last_good
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.launcher.log import say
from slurm_hooks.job.launcher.past_attempts import Past, struck

_MAX_TOLD = 5


def choose(folder: Path, history: Sequence[Past], journal: Journal, number: int) -> Choice:
    """The last good checkpoint for attempt ``number``. A folder that cannot be listed is blind."""
    try:
        choice = last_good(folder, now=time.time(), sleep=time.sleep, struck=struck(history))
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
        rejected=[_record(one) for one in choice.rejected],
    )
    return choice


def newest_step(folder: Path) -> int | None:
    """The step of the newest whole checkpoint, ``None`` when there is none or it cannot be told."""
    try:
        # Nothing writes any more, so nothing needs a second look.
        chosen = last_good(folder, now=time.time() + 3600, sleep=time.sleep).chosen
    except OSError:
        return None
    return chosen.step if chosen else None


def tell(choice: Choice, folder: Path, title: str) -> None:
    """What is resumed and why not the newer ones, a few lines at most."""
    for one in choice.rejected[:_MAX_TOLD]:
        say(f"not {one.path.name}: {one.reason}")
    if len(choice.rejected) > _MAX_TOLD:
        say(f"nor {len(choice.rejected) - _MAX_TOLD} more: see holdfast checkpoints {folder}")
    if choice.blind:
        say(f"nothing started: checkpoints in {folder} cannot be read; ask their owner for r-x")
        return
    if choice.chosen:
        step = "" if choice.chosen.step is None else f" (step {choice.chosen.step})"
        where = f"from {choice.chosen.path}{step}"
    else:
        where = (
            f"from the beginning: no {'whole checkpoint' if choice.rejected else 'checkpoint yet'}"
        )
    say(f"{title} starts {where}")


def _record(one: Checkpoint) -> dict[str, object]:
    return {
        "path": str(one.path),
        "framework": one.framework,
        "step": one.step,
        "reason": one.reason,
    }
