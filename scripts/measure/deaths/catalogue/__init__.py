"""All deaths, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence

from measure.deaths.catalogue import (
    checkpoints,
    collectives,
    controller,
    memory,
    nodes,
    people,
    program,
)
from measure.deaths.death import Death

PARTS: tuple[tuple[str, tuple[Death, ...]], ...] = (
    (
        "The program",
        (*program.DEATHS, *memory.DEATHS, *collectives.DEATHS, *checkpoints.DEATHS),
    ),
    ("A person, or Slurm", people.DEATHS),
    ("A node, or what runs the job there", (*nodes.DEATHS, *controller.DEATHS)),
)
DEATHS: tuple[Death, ...] = tuple(death for _, deaths in PARTS for death in deaths)


def named(names: Sequence[str]) -> tuple[Death, ...]:
    """The deaths with these names. Raises ``ValueError``."""
    known = {death.name: death for death in DEATHS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown death: {', '.join(unknown)}")
    return tuple(known[name] for name in names)
