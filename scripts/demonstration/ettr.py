"""Effective training time ratio of one job: productive time over wall time.

A step counts once, with the time of its last execution: repeated steps, start-up, waiting and
checkpointing are not productive (arXiv 2410.21680, section on ETTR).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ettr:
    """All in seconds, except ``ratio`` and ``redone_steps``.

    ``lost_s``: wall time beyond that of the same job without a fault (its first start-up, then every
    step at its median pace, checkpoints included).
    """

    wall_s: float
    productive_s: float
    lost_s: float
    redone_steps: int

    @property
    def ratio(self) -> float:
        return self.productive_s / self.wall_s


def ettr(events: Iterable[Event], submitted_s: float) -> Ettr:
    """ETTR from a job's progress lines. Raises ``ValueError`` when the job did not finish."""
    lines = list(events)
    steps = [line for line in lines if line["event"] == "step"]
    done = [line for line in lines if line["event"] == "done"]
    if not steps or not done:
        raise ValueError("the job did not finish")
    wall_s = float(done[-1]["t"]) - submitted_s
    last: dict[int, float] = {int(line["step"]): float(line["took_s"]) for line in steps}
    undisturbed_s = (float(steps[0]["t"]) - submitted_s) + (len(last) - 1) * _pace(steps)
    return Ettr(
        wall_s=wall_s,
        productive_s=sum(last.values()),
        lost_s=wall_s - undisturbed_s,
        redone_steps=len(steps) - len(last),
    )


def _pace(steps: Sequence[Event]) -> float:
    """Median time from one step's end to the next one's, within an attempt."""
    gaps = [
        float(after["t"]) - float(before["t"])
        for before, after in pairwise(steps)
        if after["attempt"] == before["attempt"]
    ]
    return median(gaps) if gaps else 0.0
