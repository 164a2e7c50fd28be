"""Finds the checkpoints of a folder, newest first, and the last good one.

Nothing of the user's is deleted, renamed or rewritten. Trackers (``latest`` and the like) and links
inside the folder are hints that add nothing to what the files prove, so they are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.adapters import safe_file
from slurm_hooks.job.checkpoints import torch_dcp, torch_file
from slurm_hooks.job.checkpoints.candidate import Candidate, Checkpoint, Framework
from slurm_hooks.job.checkpoints.names import is_temporary, step_in

FRAMEWORKS: tuple[Framework, ...] = (torch_dcp.FRAMEWORK, torch_file.FRAMEWORK)

RECENT_S = 5.0
"""Younger than this it may still be in the making (an old run behind a cut network), so it is
looked at twice.
"""
SETTLE_S = 0.25
MAX_ENTRIES = 100_000
"""In the folder of all checkpoints. One with more holds something else."""


def candidates(folder: Path) -> list[Candidate]:
    """Everything in ``folder`` that looks like a checkpoint, newest first, not judged.

    Newest is the highest step where all names count the same thing, else the last changed. Raises
    OSError when ``folder`` cannot be listed.
    """
    found = []
    for entry in safe_file.scan(folder, most=MAX_ENTRIES):
        candidate = _candidate(folder, entry)
        if candidate:
            found.append(candidate)
    return _newest_first(found)


def _newest_first(found: list[Candidate]) -> list[Candidate]:
    units = {
        candidate.unit
        for candidate in found
        if candidate.step is not None and not candidate.rejected
    }
    if len(units) > 1:  # epoch 9 against step 400 says nothing
        return sorted(found, key=lambda one: one.changed_at, reverse=True)
    # A file without a number (trained_model.pt) is not known to be a checkpoint of this run: last.
    return sorted(
        found, key=lambda one: (-1 if one.step is None else one.step, one.changed_at), reverse=True
    )


def _candidate(folder: Path, entry: os.DirEntry[str]) -> Candidate | None:
    path = folder / entry.name
    try:
        if _is_inner_link(path, entry):
            return None
        is_folder = entry.is_dir()
        framework = _framework_of(entry.name, _names_in(path) if is_folder else None)
        changed_at = entry.stat().st_mtime
    except OSError as error:
        return _cannot_look(path, entry, error)
    if framework is None:
        return None
    step, unit = step_in(path.name if is_folder else path.stem)
    return Candidate(
        path=path,
        framework=framework.name,
        step=step,
        unit=unit,
        changed_at=changed_at,
        rejected="temporary name: never finished" if is_temporary(entry.name) else "",
    )


def _names_in(folder: Path) -> frozenset[str]:
    return frozenset(entry.name for entry in safe_file.scan(folder, most=torch_dcp.MAX_ENTRIES))


def _framework_of(name: str, inside: frozenset[str] | None) -> Framework | None:
    if inside is not None:
        return next((one for one in FRAMEWORKS if one.owns_folder(inside)), None)
    # x.pt.tmp is told as what it was to become.
    names, stem = [name], name
    while is_temporary(stem) and "." in stem.strip("."):
        stem = stem.rpartition(".")[0]
        names.append(stem)
    return next((one for one in FRAMEWORKS if any(one.owns_file(each) for each in names)), None)


def _is_inner_link(path: Path, entry: os.DirEntry[str]) -> bool:
    """A link to a sibling (``last.pt``) would only count its target twice."""
    if not entry.is_symlink():
        return False
    return Path(os.path.realpath(path)).parent == Path(os.path.realpath(path.parent))


def _cannot_look(path: Path, entry: os.DirEntry[str], error: OSError) -> Candidate | None:
    """A checkpoint-like name that nobody may read is worth a line; any other name is not ours to
    mention.
    """
    step, unit = step_in(path.stem)
    framework = _framework_of(entry.name, None)
    if framework is None and (unit in ("", "number") or not step):
        return None
    return Candidate(
        path=path,
        framework=framework.name if framework else torch_dcp.FRAMEWORK.name,
        step=step,
        unit=unit,
        changed_at=0.0,
        rejected=f"cannot be read: {error.strerror}",
    )


def judge(candidate: Candidate) -> Checkpoint:
    """Looks at one candidate. Never raises: what cannot be read is rejected and says so."""
    reason, unreadable = candidate.rejected, candidate.rejected.startswith("cannot be read")
    if not reason:
        framework = next(one for one in FRAMEWORKS if one.name == candidate.framework)
        try:
            reason = framework.fault(candidate.path)
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
    """One that nobody could look at."""
    return judge(replace(candidate, rejected=f"cannot be read: {why}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The last good checkpoint, and the newer ones that were rejected, newest first.

    ``chosen`` None with ``rejected`` empty: the folder holds none yet.
    """

    chosen: Checkpoint | None
    rejected: tuple[Checkpoint, ...] = ()

    @property
    def blind(self) -> bool:
        """True when nothing could be chosen and something could not be read: starting anew might
        overwrite it.
        """
        return self.chosen is None and any(one.unreadable for one in self.rejected)


def last_good(
    folder: Path,
    *,
    now: float,
    sleep: Callable[[float], None],
    struck: Collection[str] = (),
) -> Choice:
    """The newest whole checkpoint of ``folder``; judges no more than it needs.

    ``struck`` holds paths from which attempts died again and again: skipped while an older one is
    left. A folder that does not exist holds none. Raises OSError when it exists and cannot be
    listed.
    """
    try:
        found = candidates(folder)
    except FileNotFoundError:
        return Choice(chosen=None)
    rejected: list[Checkpoint] = []
    fallback: Checkpoint | None = None
    for checkpoint in _judged(found, now, sleep):
        if not checkpoint.valid:
            rejected.append(checkpoint)
        elif str(checkpoint.path) in struck:
            fallback = fallback or checkpoint
            rejected.append(
                replace(checkpoint, reason="attempts that resumed from it died without a new step")
            )
        else:
            return Choice(chosen=checkpoint, rejected=tuple(rejected))
    if fallback:
        rejected = [one for one in rejected if one.path != fallback.path]
    return Choice(chosen=fallback, rejected=tuple(rejected))


def _judged(
    found: list[Candidate], now: float, sleep: Callable[[float], None]
) -> Iterator[Checkpoint]:
    for candidate in found:
        checkpoint = judge(candidate)
        # A clock ahead of ours makes the age negative: recent as well.
        if checkpoint.valid and now - candidate.changed_at < RECENT_S:
            before = signature(candidate.path)
            sleep(SETTLE_S)
            if signature(candidate.path) != before:
                checkpoint = replace(checkpoint, reason="still being written")
        yield checkpoint


def signature(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of change of the file, or of every file in the folder; empty when it is
    gone.
    """
    try:
        paths = sorted(path.iterdir()) if path.is_dir() else [path]
        stats = [(one.name, one.stat()) for one in paths]
    except OSError:
        return ()
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
