"""One ``.pt`` file for each rank: ``step_5_rank_0.pt`` … in one folder, or a folder with
``rank_0.pt`` …

One rank's file of several is no checkpoint. How many there are is in the names
(``model_world_size_8_rank_0.pt``, ``rank_0_of_8.pt``), or it is shown by the other checkpoints. The
path of a flat checkpoint is the file of its lowest rank.
"""

from __future__ import annotations

import re
from collections import defaultdict

from slurm_hooks.job.checkpoints.candidate import Candidate, Found, Framework
from slurm_hooks.job.checkpoints.frameworks.torch_parts import faults
from slurm_hooks.job.checkpoints.listing import Listing, list_folder
from slurm_hooks.job.checkpoints.names import Ranked, is_temporary, rank_in, some, step_in

_WORLD = re.compile(r"\*(?:[._-]?of[._-]?\d+)?|world[_-]?size[._=-]?\d+", re.IGNORECASE)
ENDS = (".pt", ".pth", ".bin", ".ckpt")


def ranked(names: frozenset[str]) -> dict[str, Ranked]:
    """The files of single ranks: name → what the name tells."""
    found = {name: rank_in(name) for name in names if name.endswith(ENDS)}
    return {name: rank for name, rank in found.items() if rank}


def _owns_folder(listing: Listing) -> bool:
    """True where the folder, and not its files' names, is the checkpoint."""
    found = ranked(listing.files)
    if not found or any(name.endswith(ENDS) and name not in found for name in listing.files):
        return False
    return all(step_in(_rest(one))[0] is None for one in found.values())


def _files(listing: Listing) -> list[Found]:
    found = ranked(listing.files)
    if _owns_folder(listing):
        return []
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, one in found.items():
        groups[one.rest].append(name)
    by_rank = {
        rest: sorted(names, key=lambda name: found[name].rank) for rest, names in groups.items()
    }
    return [
        Found(names[0], tuple(names), frozenset(str(found[name].rank) for name in names))
        for names in by_rank.values()
        if not is_temporary(names[0])
    ]


def without_rank(named: str) -> str:
    """A file's name without suffix, rank and number of ranks."""
    one = rank_in(named)
    return _WORLD.sub("", one.rest) if one else named


def _rest(one: Ranked) -> str:
    return _WORLD.sub("", one.rest.rpartition(".")[0])


def _fault(candidate: Candidate) -> str:
    if candidate.path.is_dir():
        folder, names = candidate.path, ranked(list_folder(candidate.path).files)
    else:
        folder, own = candidate.path.parent, rank_in(candidate.path.name)
        # Listing a folder of thousands of checkpoints for each of them would take minutes.
        beside = ranked(frozenset(candidate.members) or list_folder(folder).files)
        names = {name: one for name, one in beside.items() if own and one.rest == own.rest}
    broken = faults(folder, names)
    if broken:
        return f"incomplete: {broken}"
    groups: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for one in names.values():
        groups[one.rest, one.world].add(one.rank)
    return some([why for key, ranks in groups.items() if (why := _gap(key[1], ranks))]) or (
        "" if all(world for _, world in groups) else candidate.missing
    )


def _gap(world: int, ranks: set[int]) -> str:
    """Which rank's file is missing. Ranks count from 0, or from 1 where the name has their number."""
    first = 1 if world and world in ranks else 0
    wanted = range(first, first + (world or max(ranks) + 1))
    absent = sorted(set(wanted) - ranks)
    if not absent:
        return ""
    return f"{len(ranks)} of {len(wanted)} ranks: rank {absent[0]} is missing"


def _parts(listing: Listing) -> frozenset[str]:
    return frozenset(ranked(listing.files))


FRAMEWORK = Framework(
    name="torch-ranks", owns_folder=_owns_folder, files=_files, fault=_fault, parts=_parts
)
