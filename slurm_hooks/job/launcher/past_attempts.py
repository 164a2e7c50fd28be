"""What earlier attempts of this job teach, read from its journal. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slurm_hooks.job.journal import Event, attempts, last

STRIKES = 2
"""Attempts that may die from one checkpoint without a newer one before it is skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """One earlier attempt.

    ``started``       a step was begun; ``ended``: its launcher lived to see the end of it.
    ``told_to_end``   scancel, requeue by somebody, time limit, preemption.
    ``resumed_path``  the checkpoint that it started from, empty for none; ``resumed_step`` its
                      step.
    ``fingerprint``   equal for failures that look alike.
    ``progressed``    it left a newer checkpoint than it started from; None: cannot be told.
    ``node_fault``    a node was at fault: says nothing against the checkpoint or the code.
    ``ended_at``      epoch seconds of its last event.
    """

    number: int
    started: bool
    ended: bool
    exit_code: int | None
    told_to_end: bool
    resumed_path: str
    resumed_step: int | None
    fingerprint: str
    progressed: bool | None
    node_fault: bool
    suspects: tuple[str, ...]
    ended_at: float

    @property
    def failed(self) -> bool:
        """It ran and ended badly by itself."""
        return self.started and not self.told_to_end and (not self.ended or bool(self.exit_code))

    @property
    def launcher_died(self) -> bool:
        return self.started and not self.ended


def past(events: Iterable[Event]) -> list[Past]:
    """The attempts so far, oldest first."""
    found = [_one(group) for group in attempts(events)]
    for index, one in enumerate(found[:-1]):
        # A launcher that died has told nothing; what the next attempt started from tells.
        if one.progressed is None and is_newer(found[index + 1].resumed_step, one.resumed_step):
            found[index] = replace(one, progressed=True)
    return found


def _one(group: Sequence[Event]) -> Past:
    chosen = _table((last(group, "checkpoint") or {}).get("chosen"))
    end = last(group, "step_end") or {}
    evidence = last(group, "evidence") or {}
    finish = last(group, "finish") or {}
    return Past(
        number=_whole(group[0].get("attempt")) or 0,
        started=last(group, "step_start") is not None,
        ended=bool(end),
        exit_code=_whole(end.get("exit_code")),
        told_to_end=bool(end.get("told_to_end") or finish.get("cancelled")),
        resumed_path=str(chosen.get("path", "")),
        resumed_step=_whole(chosen.get("step")),
        fingerprint=str(evidence.get("fingerprint", "")),
        progressed=_truth(evidence.get("progressed")),
        node_fault=bool(evidence.get("faults")),
        suspects=tuple(map(str, _items(evidence.get("suspects")))),
        ended_at=_moment(group[-1].get("t")),
    )


# What the file holds may be of any kind: another version of Holdfast wrote it, or a person.


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _moment(value: object) -> float:
    """0 for what is no time of this millennium."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 32e9 else 0.0


def is_newer(step: int | None, than: int | None) -> bool:
    """Whether a checkpoint of ``step`` is beyond one of ``than`` (None: there is none)."""
    return step is not None and (than is None or step > than)


def struck(history: Sequence[Past]) -> frozenset[str]:
    """Checkpoints from which ``STRIKES`` attempts died with no newer one to show for it."""
    counts: Counter[str] = Counter()
    for index, one in enumerate(history):
        if not one.resumed_path or not one.failed or one.node_fault or one.progressed:
            continue
        later = history[index + 1 :]
        if not any(is_newer(after.resumed_step, one.resumed_step) for after in later):
            counts[one.resumed_path] += 1
    return frozenset(path for path, count in counts.items() if count >= STRIKES)


def launcher_deaths(history: Sequence[Past]) -> int:
    """How many of the last attempts in a row ended with their launcher's death."""
    count = 0
    for one in reversed(history):
        if not one.launcher_died:
            break
        count += 1
    return count
