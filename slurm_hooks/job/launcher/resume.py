"""Chooses the checkpoint that an attempt starts from, and reports it in the job's log and journal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.job.checkpoints.candidate import UNKNOWN, Candidate, Checkpoint
from slurm_hooks.job.checkpoints.find import Choice, judge, last_good, newest_first
from slurm_hooks.job.checkpoints.storage_errors import is_transient
from slurm_hooks.job.checkpoints.survey import survey
from slurm_hooks.job.checkpoints.torch_parts import some
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.launcher.log import say
from slurm_hooks.job.launcher.past_attempts import JournalAttempt, evidence_on_checkpoints

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What an attempt left in the checkpoint folder.

    ``newest``      the newest complete checkpoint written since the choice, else the chosen one.
    ``progressed``  it wrote a newer checkpoint than it started from; None: not known.
    ``unreadable``  the error with which the storage does not answer, as in an outage; else empty.
    """

    newest: Checkpoint | None = None
    progressed: bool | None = False
    unreadable: str = ""


def left(folder: Path, choice: Choice) -> Left:
    """What the attempt that started from ``choice`` left. Never raises.

    An attempt that resumed from an old checkpoint has not made the newer ones. A folder that cannot be
    read tells nothing about progress, and neither does a new checkpoint whose step cannot be compared.
    """
    try:
        found = newest_first(survey(folder).candidates)
    except FileNotFoundError:
        return Left(progressed=None if choice.known else False)
    except OSError as error:
        text = error.strerror or str(error)
        return Left(progressed=None, unreadable=text if is_transient(error) else "")
    unknown = False
    for candidate in filter(choice.is_new, found):
        checkpoint = judge(candidate)
        if checkpoint.valid:
            start = next((one for one in found if _is_chosen(one, choice)), None)
            return Left(newest=checkpoint, progressed=_is_progress(candidate, choice.chosen, start))
        unknown |= checkpoint.unreadable
    progressed = True if _others_advanced(found, choice) else None if unknown else False
    return Left(newest=choice.chosen, progressed=progressed)


def _is_chosen(candidate: Candidate, choice: Choice) -> bool:
    return choice.chosen is not None and candidate.path == choice.chosen.path


def _is_progress(new: Candidate, chosen: Checkpoint | None, start: Candidate | None) -> bool | None:
    """``chosen``: what the attempt resumed from; ``start``: the same in the present listing."""
    if chosen is None:
        return True
    if new.step is None or chosen.step is None or (start and start.unit != new.unit):
        return None  # names without steps, or epochs and steps
    return new.step > chosen.step


def _others_advanced(found: Sequence[Candidate], choice: Choice) -> bool:
    """True if the program wrote a folder with a higher step in a format that is not recognised. It
    makes progress by its own checkpoints, although Holdfast cannot choose among them."""
    steps = [(one.step, one.path in choice.known) for one in found if one.framework == UNKNOWN]
    before = max((step for step, known in steps if known and step is not None), default=-1)
    return any(step is not None and step > before for step, known in steps if not known)


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
