"""The search for the last good checkpoint, while attempts fail from complete ones (bisection.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.job.checkpoints.bisection import plan
from slurm_hooks.job.checkpoints.find import Choice, newest_first
from slurm_hooks.job.checkpoints.survey import survey
from slurm_hooks.job.past_attempts import JournalAttempt, evidence_on_checkpoints

_MIN_PROOF_S = 60.0
_PROOF = 2.0
"""Times the longest run of an attempt that failed: an attempt that runs longer has a good checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The present attempt as a test of its checkpoint. ``failed_after_s``: how long attempts from bad
    checkpoints ran at most."""

    choice: Choice
    failed_after_s: float

    def proved(self, ran_s: float) -> str:
        """Why the attempt ends although it works; empty: it goes on.

        Its checkpoint is good, and newer ones have not been tried. It ends only if half of the work
        between them is worth more than what this attempt has done.
        """
        chosen, newer = self.choice.chosen, self.choice.newer_untested
        if chosen is None or not newer or ran_s < max(_MIN_PROOF_S, _PROOF * self.failed_after_s):
            return ""
        if (newer[0].changed_at - chosen.changed_at) / 2 <= ran_s:
            return ""
        return f"{chosen.path.name} works; {len(newer)} newer checkpoints are not tested yet"


def search(choice: Choice, history: Sequence[JournalAttempt]) -> Search:
    """``history``: the attempts before this one."""
    evidence = evidence_on_checkpoints(history)
    return Search(choice=choice, failed_after_s=evidence.failed_after_s)


def next_checkpoint(folder: Path, history: Sequence[JournalAttempt]) -> str:
    """The name of the checkpoint that the next attempt tries because earlier ones are bad; empty: none
    is bad, or there is no other. ``history`` includes the attempt that just failed."""
    evidence = evidence_on_checkpoints(history)
    if not evidence.bad and not evidence.suspected:
        return ""
    try:
        planned = plan(newest_first(survey(folder).candidates), evidence)
    except OSError:
        return ""
    return next((one.path.name for one in planned.order if not one.rejected), "")
