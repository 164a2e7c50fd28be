"""Reads a checkpoint's name: its step, its rank, or that it is a temporary name. Lists names."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

# A unit, then the number: checkpoint_epoch_5, step-1000, iter_0000100, global_step200,
# checkpoint-7.
_COUNTED = re.compile(
    r"(?:^|[^a-z])(?P<word>global[_-]?step|step|iteration|iter|epoch|ep|checkpoint|ckpt)s?[._=-]?(?P<number>\d+)(?!\d)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
_MAX_DIGITS = 18
_MAX_LISTED = 3
_TEMPORARY = re.compile(
    r"(?:^|[._-])(?:tmp|temp|part|partial|incomplete|unfinished|inprogress|writing)(?:$|[._-])|~$|^\."
    r"|\.orbax-checkpoint-tmp",
    re.IGNORECASE,
)
_UNIT = {"epoch": "epoch", "ep": "epoch", "checkpoint": "number", "ckpt": "number"}
_RANKED = re.compile(
    r"(?:^|(?<=[._-]))(?P<word>mp_rank|dp_rank|tp_rank|pp_rank|rank|shard|proc|process|worker)[._=-]?"
    r"(?P<rank>\d{1,6})(?:[._-]?of[._-]?(?P<of>\d{1,6}))?(?=$|[._-])",
    re.IGNORECASE,
)
_OF = re.compile(r"(?<=[._-])(?P<rank>\d{1,6})[._-]of[._-](?P<of>\d{1,6})(?=$|[._-])")
_WORLD = re.compile(r"world[_-]?size[._=-]?(?P<of>\d{1,6})(?=$|[._-])", re.IGNORECASE)


def step_in(stem: str) -> tuple[int | None, str]:
    """The step in a name without its suffix, and its unit: step, epoch or number.

    >>> step_in("checkpoint_epoch_5"), step_in("llama-7b-step-1200"), step_in("final")
    ((5, 'epoch'), (1200, 'step'), (None, ''))
    """
    counted = list(_COUNTED.finditer(stem))
    # epoch=3-step=1200: the finer unit counts.
    for unit in ("step", "epoch", "number"):
        for match in reversed(counted):
            number = match["number"]
            if _UNIT.get(match["word"].lower(), "step") == unit and len(number) <= _MAX_DIGITS:
                return int(number), unit
    numbers = [number for number in _NUMBER.findall(stem) if len(number) <= _MAX_DIGITS]
    return (int(numbers[-1]), "number") if numbers else (None, "")


def is_counted(name: str) -> bool:
    """True for a name with a unit and a number (``step-5``, ``checkpoint-500``, ``iter_0000100``)."""
    return bool(_COUNTED.search(name))


def is_temporary(name: str) -> bool:
    """True for names that writers use before the final rename (``x.pt.tmp``, ``.x.pt``,
    ``tmp_step_5``).
    """
    return bool(_TEMPORARY.search(name))


class Ranked(NamedTuple):
    """The name of one rank's file: the name without the rank, the rank, and the number of ranks if the
    name has it (0: it has not).
    """

    rest: str
    rank: int
    world: int


def rank_in(name: str) -> Ranked | None:
    """The rank in a file's name, or None.

    >>> rank_in("step_5_rank_3.pt"), rank_in("model_world_size_8_rank_0.pt").world, rank_in("a.pt")
    (Ranked(rest='step_5_rank_*.pt', rank=3, world=0), 8, None)
    """
    match = _RANKED.search(name) or _OF.search(name)
    if match is None:
        return None
    world = match["of"] or (found["of"] if (found := _WORLD.search(name)) else "0")
    rest = name[: match.start("rank")] + "*" + name[match.end("rank") :]
    return Ranked(rest, int(match["rank"]), int(world))


def some(names: Collection[str]) -> str:
    """A few of these names, and how many more there are."""
    shown, more = sorted(names)[:_MAX_LISTED], len(names) - _MAX_LISTED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
