"""Finds the checkpoints of a folder, newest first, and the last good one.

No file of the user is deleted, renamed or changed. Tracker files (``latest`` and the like) and links
inside the folder are not followed: the checkpoints themselves show which one is complete.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurm_hooks.job.checkpoints.bisection import NEWER, NO_EVIDENCE, REASON, Evidence, Plan, plan
from slurm_hooks.job.checkpoints.candidate import Candidate, Checkpoint
from slurm_hooks.job.checkpoints.frameworks import framework_of
from slurm_hooks.job.checkpoints.survey import Survey, survey

RECENT_S = 5.0
"""A checkpoint younger than this may still be written (by an old run on an isolated node), so it is
checked twice.
"""
SETTLE_S = 0.25
_MAX_STATS = 20_000


def candidates(folder: Path) -> list[Candidate]:
    """Everything in ``folder`` that looks like a checkpoint, newest first, not checked.

    Newest means the highest step if all names have the same unit, else the last change. Raises
    OSError when ``folder`` cannot be listed.
    """
    return newest_first(survey(folder).candidates)


def newest_first(found: Collection[Candidate]) -> list[Candidate]:
    """By step, or by age where steps cannot be compared."""
    units = {
        candidate.unit
        for candidate in found
        if candidate.step is not None and not candidate.rejected
    }
    if len(units) > 1:  # epoch 9 and step 400 cannot be compared
        return sorted(found, key=lambda candidate: candidate.changed_at, reverse=True)
    # A file without a number (trained_model.pt) may not be a checkpoint of this run: it comes last.
    return sorted(found, key=_step_and_age, reverse=True)


def _step_and_age(candidate: Candidate) -> tuple[int, float]:
    return (-1 if candidate.step is None else candidate.step, candidate.changed_at)


def judge(candidate: Candidate) -> Checkpoint:
    """Checks one candidate. Never raises: a candidate that cannot be read is rejected as such."""
    reason, unreadable = candidate.rejected, candidate.rejected.startswith("cannot be read")
    framework = framework_of(candidate)
    if not reason and framework:
        try:
            reason = framework.fault(candidate)
        except OSError as error:
            reason, unreadable = f"cannot be read: {error.strerror}", True
    return Checkpoint(
        path=candidate.path,
        framework=candidate.framework,
        step=candidate.step,
        changed_at=candidate.changed_at,
        reason=reason,
        unreadable=unreadable,
    )


def unjudged(candidate: Candidate, why: str) -> Checkpoint:
    """A checkpoint that could not be checked."""
    return judge(replace(candidate, rejected=f"cannot be read: {why}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The last good checkpoint, and the newer ones that were rejected, newest first.

    ``chosen`` None with ``rejected`` empty: the folder holds none yet. ``unrecognised``: the names in
    the folder that belong to no checkpoint. ``newer_untested``: the checkpoints newer than the chosen
    one of which it is not known whether they are bad, newest first. ``known``: every path in the folder
    with the time of its last change.
    """

    chosen: Checkpoint | None
    rejected: tuple[Checkpoint, ...] = ()
    unrecognised: tuple[str, ...] = ()
    newer_untested: tuple[Candidate, ...] = ()
    known: Mapping[Path, float] = field(default_factory=dict)

    def is_new(self, candidate: Candidate) -> bool:
        """True when it was written after this choice."""
        return candidate.changed_at > self.known.get(candidate.path, -1.0)

    @property
    def unreadable(self) -> bool:
        """True when no checkpoint could be chosen and one could not be read: a start from the
        beginning might overwrite it.
        """
        return self.chosen is None and any(checkpoint.unreadable for checkpoint in self.rejected)


def last_good(
    folder: Path,
    *,
    now: float,
    sleep: Callable[[float], None],
    evidence: Evidence = NO_EVIDENCE,
) -> Choice:
    """The newest complete checkpoint of ``folder``. Checks no more candidates than necessary.

    ``evidence``: from which checkpoints earlier attempts failed. These, and those written after them,
    are skipped as long as there is another one. A folder that does not exist holds none. Raises OSError
    when it exists and cannot be listed.
    """
    try:
        seen = survey(folder)
    except FileNotFoundError:
        return Choice(chosen=None)
    planned = plan(newest_first(seen.candidates), evidence)
    avoided = [_avoided(candidate, evidence) for candidate in planned.avoided]
    rejected: list[Checkpoint] = []
    for checkpoint in _judged(planned.order, now, sleep):
        if checkpoint.valid:
            return _choice(checkpoint, [*avoided, *rejected], seen, planned)
        rejected.append(checkpoint)
    for checkpoint in _judged(planned.avoided, now, sleep):
        if checkpoint.valid:
            others = [other for other in avoided if other.path != checkpoint.path]
            return _choice(checkpoint, [*others, *rejected], seen, planned)
    return _choice(None, [*avoided, *rejected], seen, planned)


def _choice(
    chosen: Checkpoint | None, rejected: list[Checkpoint], seen: Survey, planned: Plan
) -> Choice:
    return Choice(
        chosen=chosen,
        rejected=tuple(rejected),
        unrecognised=seen.unrecognised,
        known={candidate.path: candidate.changed_at for candidate in seen.candidates},
        newer_untested=planned.newer_untested(str(chosen.path)) if chosen else (),
    )


def _avoided(candidate: Candidate, evidence: Evidence) -> Checkpoint:
    failed = any(
        trial.path == str(candidate.path) for trial in (*evidence.bad, *evidence.suspected)
    )
    return judge(replace(candidate, rejected=candidate.rejected or (REASON if failed else NEWER)))


def _judged(
    found: Iterable[Candidate], now: float, sleep: Callable[[float], None]
) -> Iterator[Checkpoint]:
    for candidate in found:
        checkpoint = judge(candidate)
        # With a writer's clock ahead of this one the age is negative: also recent.
        if checkpoint.valid and now - candidate.changed_at < RECENT_S:
            before = signature(candidate.path)
            sleep(SETTLE_S)
            if signature(candidate.path) != before:
                checkpoint = replace(checkpoint, reason="still being written")
        yield checkpoint


def signature(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of change of the file, or of every file in the folder; empty if it does not
    exist. For a TensorFlow prefix: of its files.
    """
    try:
        stats = [(str(file), file.stat()) for file in sorted(_files(path))[:_MAX_STATS]]
    except OSError:
        return ()
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        for folder, _, names in os.walk(path):
            yield from (Path(folder, name) for name in names)
    elif path.exists():
        yield path
    else:
        yield from path.parent.glob(f"{glob.escape(path.name)}.*")
