"""Which nodes a job that hangs waits for, by what its ranks do. Pure.

As ByteRobust does with stacks: the ranks of the largest group wait, and the few that do something else are
those that they wait for. More than a quarter of all ranks tell nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from slurm_hooks.job.diagnosis import flight_recorder
from slurm_hooks.job.progress.ranks.report import Collected, RankReport

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspected:
    """``nodes``: sorted, none: not known. ``why``: one phrase."""

    nodes: tuple[str, ...] = ()
    why: str = ""


def suspected(collected: Collected, nodes: Sequence[str]) -> Suspected:
    """``nodes``: those of the job."""
    ranks = collected.ranks
    silent = sorted(set(nodes) - collected.answered)
    if collected.answered and 0 < len(silent) <= max(1, len(nodes) // 4):
        return Suspected(nodes=tuple(silent), why="did not answer when all others did")
    dumps = {report.rank: report.pending for report in ranks if report.pending is not None}
    awaited = flight_recorder.awaited(dumps) if len(dumps) == len(ranks) else ()
    if awaited:
        found = [report for report in ranks if report.rank in awaited]
        return _of(found, "the others wait for it according to the flight recorder")
    blocked = [report for report in ranks if report.state == "D" or report.blocked]
    if _are_few(blocked, ranks):
        places = sorted({place for report in blocked for place in report.blocked if place})
        where = ", ".join(places[:_SHOWN]) or "the kernel"
        return _of(blocked, f"blocked in {where}")
    return _outliers(ranks)


def _outliers(ranks: Sequence[RankReport]) -> Suspected:
    if not ranks:
        return Suspected()
    activity, count = Counter(report.activity for report in ranks).most_common(1)[0]
    others = [report for report in ranks if report.activity != activity]
    if not _are_few(others, ranks):
        return Suspected()
    what = " or ".join(sorted({report.activity for report in others})[:_SHOWN])
    return _of(others, f"{what}, while each of {count} others {activity}")


def _are_few(some: Sequence[RankReport], ranks: Sequence[RankReport]) -> bool:
    return 0 < 4 * len(some) <= len(ranks)


def _of(found: Sequence[RankReport], why: str) -> Suspected:
    numbers = [str(report.rank) for report in found[:_SHOWN]]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    noun = "rank" if len(found) == 1 else "ranks"
    return Suspected(
        nodes=tuple(sorted({report.node for report in found})),
        why=f"{noun} {', '.join(numbers)}{more}: {why}",
    )
