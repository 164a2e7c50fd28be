"""Finds the checkpoints of a folder, newest first, and the last good one.

No file of the user is deleted, renamed or changed. Tracker files (``latest`` and the like) and links
inside the folder are not followed: the checkpoints themselves show which one is complete.
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
"""A checkpoint younger than this may still be written (by an old run on an isolated node), so it is
checked twice.
"""
SETTLE_S = 0.25
MAX_ENTRIES = 100_000
"""Entries of the checkpoint folder. A folder with more holds something else."""


def candidates(folder: Path) -> list[Candidate]:
    """Everything in ``folder`` that looks like a checkpoint, newest first, not checked.

    Newest means the highest step if all names have the same unit, else the last change. Raises
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
    if len(units) > 1:  # epoch 9 and step 400 cannot be compared
        return sorted(found, key=lambda candidate: candidate.changed_at, reverse=True)
    # A file without a number (trained_model.pt) may not be a checkpoint of this run: it comes last.
    return sorted(found, key=_step_and_age, reverse=True)


def _step_and_age(candidate: Candidate) -> tuple[int, float]:
    return (-1 if candidate.step is None else candidate.step, candidate.changed_at)


def _candidate(folder: Path, entry: os.DirEntry[str]) -> Candidate | None:
    path = folder / entry.name
    try:
        if _is_inner_link(path, entry):
            return None
        is_folder = entry.is_dir()
        framework = _framework_of(entry.name, _names_in(path) if is_folder else None)
        changed_at = entry.stat().st_mtime
    except OSError as error:
        return _unreadable(path, entry, error)
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
        return next((framework for framework in FRAMEWORKS if framework.owns_folder(inside)), None)
    # x.pt.tmp counts as x.pt, which its writer would have made of it.
    names, stem = [name], name
    while is_temporary(stem) and "." in stem.strip("."):
        stem = stem.rpartition(".")[0]
        names.append(stem)
    owners = (one for one in FRAMEWORKS if any(map(one.owns_file, names)))
    return next(owners, None)


def _is_inner_link(path: Path, entry: os.DirEntry[str]) -> bool:
    """True for a link to a sibling (``last.pt``), which would count its target twice."""
    if not entry.is_symlink():
        return False
    return Path(os.path.realpath(path)).parent == Path(os.path.realpath(path.parent))


def _unreadable(path: Path, entry: os.DirEntry[str], error: OSError) -> Candidate | None:
    """A candidate for an unreadable file with the name of a checkpoint; ``None`` for other names."""
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
    """Checks one candidate. Never raises: a candidate that cannot be read is rejected as such."""
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
    """A checkpoint that could not be checked."""
    return judge(replace(candidate, rejected=f"cannot be read: {why}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The last good checkpoint, and the newer ones that were rejected, newest first.

    ``chosen`` None with ``rejected`` empty: the folder holds none yet.
    """

    chosen: Checkpoint | None
    rejected: tuple[Checkpoint, ...] = ()

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
    avoid: Collection[str] = (),
) -> Choice:
    """The newest complete checkpoint of ``folder``. Checks no more candidates than necessary.

    ``avoid``: paths from which attempts failed repeatedly; skipped as long as there is an older
    checkpoint. A folder that does not exist holds none. Raises OSError when it exists and cannot be
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
        elif str(checkpoint.path) in avoid:
            fallback = fallback or checkpoint
            rejected.append(
                replace(
                    checkpoint, reason="attempts that resumed from it failed without a new step"
                )
            )
        else:
            return Choice(chosen=checkpoint, rejected=tuple(rejected))
    if fallback:
        rejected = [other for other in rejected if other.path != fallback.path]
    return Choice(chosen=fallback, rejected=tuple(rejected))


def _judged(
    found: list[Candidate], now: float, sleep: Callable[[float], None]
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
    exist.
    """
    try:
        paths = sorted(path.iterdir()) if path.is_dir() else [path]
        stats = [(file.name, file.stat()) for file in paths]
    except OSError:
        return ()
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
