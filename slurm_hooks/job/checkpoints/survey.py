"""Everything in a checkpoint folder that looks like a checkpoint, also in folders of runs inside it.

Trackers (``latest``, ``latest_checkpointed_iteration.txt``, ``checkpoint``) are not followed: the
checkpoints themselves show which one is complete. Nothing is changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from slurm_hooks.job.checkpoints.candidate import UNKNOWN, Candidate, Found, Framework
from slurm_hooks.job.checkpoints.frameworks import (
    FRAMEWORKS,
    dlrover,
    lightning,
    nemo,
    safetensors,
    tensorflow,
    torch_dcp,
    torch_file,
    torch_ranks,
)
from slurm_hooks.job.checkpoints.listing import OWN_FOLDER, Listing, list_folder
from slurm_hooks.job.checkpoints.names import is_counted, is_temporary, some, step_in

MAX_ENTRIES = 100_000
"""Entries of the checkpoint folder. A folder with more holds something else."""
_MAX_DEPTH = 6
_MAX_FOLDERS = 20_000
"""Folders that are listed in all; the rest counts as not recognised."""
_MAX_STATS = 8
_TEMPORARY = "temporary name: never finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """``candidates`` in no order. ``unrecognised``: the names of other entries of the folder, sorted."""

    candidates: tuple[Candidate, ...]
    unrecognised: tuple[str, ...] = ()


class _Sighting(NamedTuple):
    candidate: Candidate
    parts: frozenset[str]


@dataclass(slots=True)
class _Walk:
    root: Path
    folders: set[tuple[int, int]] = field(default_factory=set)
    seen: list[_Sighting] = field(default_factory=list)

    def has_seen(self, path: Path) -> bool:
        """True for a folder that was listed before: links can lead to it again. Raises OSError."""
        facts = path.stat()
        key = (facts.st_dev, facts.st_ino)
        known = key in self.folders
        self.folders.add(key)
        return known


def survey(folder: Path) -> Survey:
    """Looks through ``folder``. Raises OSError when it cannot be listed."""
    top = list_folder(folder, most=MAX_ENTRIES)
    walk = _Walk(folder)
    walk.has_seen(folder)
    _look_at(walk, top, depth=0)
    owner = _owner(top)
    if owner and not any(sighting.candidate.step is not None for sighting in walk.seen):
        walk.seen.append(_folder_sighting(walk, owner, top))
    known = {sighting.candidate.path for sighting in walk.seen}
    # "unrecognised" is about the top level alone, so each checkpoint counts for the entry that it
    # is in.
    below = {path.relative_to(folder).parts[:1] for path in known}
    others = {*top.files, *top.folders} - {OWN_FOLDER}
    prefixes = tuple(f"{parts[0]}." for parts in below if parts)
    return Survey(
        candidates=tuple(_compared(walk.seen)),
        unrecognised=tuple(
            sorted(
                name
                for name in others
                if (name,) not in below and not (prefixes and name.startswith(prefixes))
            )
        ),
    )


def _owner(listing: Listing) -> Framework | None:
    return next((one for one in FRAMEWORKS if one.owns_folder(listing)), None)


def _look_at(walk: _Walk, listing: Listing, depth: int) -> bool:
    """Adds the checkpoints in and below a folder that is none itself. False: there are none."""
    before = len(walk.seen)
    stage = dlrover.stage(listing)
    for framework, found in _files(listing):
        _add_file(walk, listing, framework, found)
    for name, error in listing.unreadable:
        _add_unreadable(walk, listing.path / name, error)
    names = listing.files | listing.folders
    for name in sorted(listing.folders - {OWN_FOLDER, dlrover.STAGE}):
        _look_into(walk, listing.path / name, names, depth + 1)
    if stage:
        # Until its stage is committed, a checkpoint of DLRover is not complete, whatever its own
        # format says.
        walk.seen[before:] = [_staged(stage, sighting) for sighting in walk.seen[before:]]
    return len(walk.seen) > before


def _files(listing: Listing) -> Iterator[tuple[Framework, Found]]:
    taken: set[str] = set()
    for framework in FRAMEWORKS:
        for found in framework.files(listing):
            members = found.members or (found.name,)
            # The first framework that knows a file takes it: FRAMEWORKS has the most specific
            # formats first.
            if taken.isdisjoint(members):
                taken.update(members)
                yield framework, found


def _look_into(walk: _Walk, path: Path, beside: frozenset[str], depth: int) -> None:
    if depth > _MAX_DEPTH or len(walk.folders) > _MAX_FOLDERS:
        return
    try:
        # A symbolic link to a folder above would make the walk endless.
        if walk.has_seen(path):
            return
        listing = list_folder(path, beside)
    except OSError as error:
        _add_unreadable(walk, path, error)
        return
    owner = _owner(listing)
    if owner:
        walk.seen.append(_folder_sighting(walk, owner, listing))
    elif not path.name.startswith(".") and not _look_at(walk, listing, depth):
        _add_unknown(walk, listing)


def _folder_sighting(walk: _Walk, framework: Framework, listing: Listing) -> _Sighting:
    rejected = _TEMPORARY if _is_temporary(walk, listing.path) else ""
    if nemo.is_unfinished(listing.name, listing.beside):
        rejected = f"{listing.name}{nemo.MARKER} is beside it: NeMo did not finish it"
    return _Sighting(
        _candidate(walk, framework, listing.path, _changed(listing), rejected, folder=True),
        framework.parts(listing),
    )


def _add_file(walk: _Walk, listing: Listing, framework: Framework, found: Found) -> None:
    path = listing.path / found.name
    members = [listing.path / name for name in (found.members or (found.name,))[:_MAX_STATS]]
    try:
        changed_at = max(member.stat().st_mtime for member in members)
    except OSError as error:
        _add_unreadable(walk, path, error)
        return
    rejected = _TEMPORARY if _is_temporary(walk, path) else ""
    if nemo.is_unfinished(found.name, listing.files):
        rejected = f"{path.stem}{nemo.MARKER} is beside it: NeMo did not finish it"
    candidate = _candidate(walk, framework, path, changed_at, rejected, folder=False)
    candidate = replace(candidate, members=found.members)
    # A file without a step in a folder of its own is a model that the job uses.
    if candidate.step is not None or listing.path == walk.root:
        walk.seen.append(_Sighting(candidate, found.parts))


def _candidate(
    walk: _Walk, framework: Framework, path: Path, changed_at: float, rejected: str, *, folder: bool
) -> Candidate:
    named = path.name if folder or framework is tensorflow.FRAMEWORK else path.stem
    step, unit = step_in(named)
    if framework is torch_ranks.FRAMEWORK and not folder:
        step, unit = _step_of_rank(named)
    if unit == "number" and framework.counts_steps:
        unit = "step"
    # The name says nothing: frameworks that always write the same file name number the folder
    # instead.
    if unit in ("", "number") and not is_counted(named):
        above = [one for one in _below_root(walk, path)[:-1] if is_counted(one)]
        if above:
            step, unit = step_in(above[-1])
            unit = "step" if framework.counts_steps and unit == "number" else unit
    # The last choice, because it opens a file of what may be a slow shared filesystem.
    if unit != "step" and not rejected:
        inside = framework.step(path)
        step, unit = (step, unit) if inside is None else (inside, "step")
    return Candidate(
        path=path,
        framework=framework.name,
        step=step,
        unit=unit,
        changed_at=changed_at,
        rejected=rejected,
    )


def _step_of_rank(named: str) -> tuple[int | None, str]:
    """The step in the name of one rank's file: its rank and its number of ranks are none."""
    rest = torch_ranks.without_rank(named)
    return step_in(rest) if is_counted(rest) else (None, "")


def _below_root(walk: _Walk, path: Path) -> tuple[str, ...]:
    return path.relative_to(walk.root).parts


def _is_temporary(walk: _Walk, path: Path) -> bool:
    return any(map(is_temporary, _below_root(walk, path)))


def _changed(listing: Listing) -> float:
    """When the folder was last written: a file that is written again does not change its folder."""
    paths = [listing.path, *(listing.path / name for name in sorted(listing.files)[:_MAX_STATS])]
    times = [0.0]
    for path in paths:
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times)


def _staged(stage: dlrover.Stage, sighting: _Sighting) -> _Sighting:
    candidate = sighting.candidate
    rejected = candidate.rejected or stage.fault(candidate.step)
    return sighting._replace(candidate=replace(candidate, rejected=rejected))


def _add_unreadable(walk: _Walk, path: Path, error: OSError) -> None:
    """An entry with the name of a checkpoint that cannot be read; others are left out."""
    file = torch_file.is_one(path.name) or path.name.endswith((lightning.END, safetensors.END))
    if not file and not is_counted(path.name):
        return
    step, unit = step_in(path.stem)
    candidate = Candidate(
        path=path,
        framework=torch_file.FRAMEWORK.name if file else torch_dcp.FRAMEWORK.name,
        step=step,
        unit=unit,
        changed_at=0.0,
        rejected=f"cannot be read: {error.strerror}",
    )
    walk.seen.append(_Sighting(candidate, frozenset()))


def _add_unknown(walk: _Walk, listing: Listing) -> None:
    """A folder with the name of a checkpoint and without anything that is recognised."""
    if not is_counted(listing.name):
        return
    step, unit = step_in(listing.name)
    inside = listing.files | listing.folders
    reason = f"not recognised: it holds {some(inside)}" if inside else "empty folder"
    candidate = Candidate(
        path=listing.path,
        framework=UNKNOWN,
        step=step,
        unit=unit,
        changed_at=_changed(listing),
        rejected=reason,
    )
    walk.seen.append(_Sighting(candidate, frozenset()))


def _compared(seen: list[_Sighting]) -> Iterator[Candidate]:
    """The candidates; each with the parts that other checkpoints of its folder have and it has not.

    A set of parts that occurs once and is a part of another one is incomplete. One that occurs twice is
    that of a job which went on with fewer ranks.
    """
    groups: defaultdict[tuple[str, Path], list[_Sighting]] = defaultdict(list)
    for sighting in seen:
        groups[sighting.candidate.framework, _home(sighting.candidate)].append(sighting)
    for group in groups.values():
        times = Counter(sighting.parts for sighting in group)
        for candidate, parts in group:
            rivals = [other for other in times if times[parts] == 1 and parts < other]
            absent = max(rivals, key=len) - parts if rivals else frozenset()
            missing = f"incomplete: other checkpoints here also have {_ranks(absent)}"
            yield replace(candidate, missing=missing) if absent else candidate


def _home(candidate: Candidate) -> Path:
    """The folder whose checkpoints are of one kind: ``global_step_5/actor`` is like ``global_step_9/actor``,
    not like ``global_step_5/critic``."""
    path = candidate.path
    parts = [part for part in path.parts[:-1] if not is_counted(part)]
    return Path(*parts, path.name if not is_counted(path.name) and path.suffix == "" else "")


def _ranks(absent: frozenset[str]) -> str:
    numbers = all(name.isdigit() for name in absent)
    return f"rank {some(absent)}" if numbers else some(absent)
