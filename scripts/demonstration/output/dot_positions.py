"""Where the numbered dots of the picture are, so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence


def spread(times: Sequence[float], gap: float, least: float) -> list[float]:
    """Positions near ``times`` (ascending), at least ``gap`` apart, none before ``least``.

    Nothing happens before the fault: a dot left of it would be read as something that did.
    """
    groups: list[list[float]] = []
    for at in times:
        groups.append([at])
        while len(groups) > 1 and _edge(groups[-2], gap, 1) + gap > _edge(groups[-1], gap, -1):
            groups[-2:] = [groups[-2] + groups[-1]]
    wanted = (
        _edge(group, gap, -1) + gap * index for group in groups for index in range(len(group))
    )
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + gap if places else least))
    return places


def _edge(group: Sequence[float], gap: float, side: int) -> float:
    """The first (side -1) or last (side 1) position of a group centred on its mean."""
    return sum(group) / len(group) + side * gap * (len(group) - 1) / 2
