"""What an attempt left in the checkpoint folder, and whether it made progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.job.checkpoints.candidate import UNKNOWN, Candidate, Checkpoint
from slurm_hooks.job.checkpoints.find import Choice, judge, newest_first
from slurm_hooks.job.checkpoints.storage_errors import is_transient
from slurm_hooks.job.checkpoints.survey import survey


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


def is_other(newest: Checkpoint | None, before: Checkpoint | None) -> bool:
    """Whether ``newest`` was written after ``before`` was the newest one."""
    if newest is None:
        return False
    return before is None or (newest.path, newest.changed_at) != (before.path, before.changed_at)


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
