"""Whether a checkpoint is being written at this moment: the newest one is incomplete and changes."""

from __future__ import annotations

from pathlib import Path

from slurm_hooks.job.checkpoints.find import judge, signature
from slurm_hooks.job.checkpoints.survey import survey


def unfinished(folder: Path) -> object:
    """Differs as long as the newest checkpoint is being written; None: it is complete, or there is none. Raises
    OSError."""
    try:
        found = survey(folder).candidates
    except FileNotFoundError:
        return None
    newest = max(found, key=lambda candidate: candidate.changed_at, default=None)
    if newest is None or judge(newest).valid:
        return None
    return newest.path, signature(newest.path)


def is_writing(before: object, now: object) -> bool:
    """By two looks, some tenths of a second apart."""
    return now is not None and now != before
