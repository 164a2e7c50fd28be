"""Which checkpoint to try next when attempts fail from one that is complete.

A checkpoint can be whole and still be bad: its loss is NaN, or the program crashes soon after each load.
All checkpoints that were written after the first bad one are bad too. So half of those between the last
good one and the first bad one is ruled out with each attempt: of 64 checkpoints the last good one is
known after 6 attempts. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_hooks.job.checkpoints.candidate import Candidate

REASON = "attempts that resumed from it failed without a new step"
NEWER = "written after a checkpoint from which attempts failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An earlier attempt that resumed from a checkpoint. ``ended_at``: epoch seconds."""

    path: str
    step: int | None
    ended_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """``bad``: attempts that count against their checkpoint and all newer ones; ``good``: those that made
    progress.

    ``suspected``       the only attempt whose own failure points to its checkpoint: it alone is avoided.
    ``failed_after_s``  the longest time from a start to a failure among the bad ones.
    """

    bad: tuple[Trial, ...] = ()
    suspected: tuple[Trial, ...] = ()
    good: tuple[Trial, ...] = ()
    failed_after_s: float = 0.0


NO_EVIDENCE = Evidence()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``order``: which candidates to try, in this order. ``avoided``: those known or expected to be bad,
    newest first.

    ``untested`` are the candidates of ``order`` of which it is not known whether they are bad, newest
    first; empty where nothing is searched for.
    """

    order: tuple[Candidate, ...]
    avoided: tuple[Candidate, ...] = ()
    untested: tuple[Candidate, ...] = ()

    def newer_untested(self, path: str) -> tuple[Candidate, ...]:
        """The untested candidates that are newer than the one at ``path``."""
        paths = [str(candidate.path) for candidate in self.untested]
        return self.untested[: paths.index(path)] if path in paths else ()


def plan(found: Sequence[Candidate], evidence: Evidence) -> Plan:
    """The next candidates to try. ``found``: all of them, newest first."""
    if not evidence.bad:
        spared = [one for one in found if _is_suspected(one, evidence)]
        return Plan(order=tuple(one for one in found if one not in spared), avoided=tuple(spared))
    at = max(trial.ended_at for trial in evidence.bad)
    first_bad = min((trial.step for trial in evidence.bad if trial.step is not None), default=None)
    failed = {trial.path for trial in evidence.bad}
    last_good = max(
        (
            trial.step
            for trial in evidence.good
            if trial.step is not None and (first_bad is None or trial.step < first_bad)
        ),
        default=-1,
    )
    fresh, untested, rest, avoided = [], [], [], []
    for candidate in found:
        step = candidate.step
        # A later attempt may have written it again under the same name.
        if candidate.changed_at > at:
            fresh.append(candidate)
        elif str(candidate.path) in failed:
            avoided.append(candidate)
        elif first_bad is None or step is None:
            rest.append(candidate)
        elif step >= first_bad:
            avoided.append(candidate)
        elif step > last_good and not candidate.rejected:
            untested.append(candidate)
        else:
            rest.append(candidate)
    return Plan(
        order=(*fresh, *_from_the_middle(untested), *rest),
        avoided=tuple(avoided),
        untested=tuple(untested),
    )


def _is_suspected(candidate: Candidate, evidence: Evidence) -> bool:
    return any(
        trial.path == str(candidate.path) and candidate.changed_at <= trial.ended_at
        for trial in evidence.suspected
    )


def _from_the_middle(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The middle first, then its neighbours: the middle one may turn out to be incomplete."""
    middle = (len(candidates) - 1) // 2
    ranked = sorted(range(len(candidates)), key=lambda index: (abs(index - middle), index))
    return [candidates[index] for index in ranked]
