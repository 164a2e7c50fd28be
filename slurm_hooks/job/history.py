"""What earlier attempts of this job teach, read from its journal. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_hooks.job.journal import Event, attempts, last

STRIKES = 2
"""Attempts that may die from one checkpoint without a newer one before it is skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """One earlier attempt.

    ``resumed_path``, ``resumed_step``  the checkpoint that it started from, empty and None for
                                        none.
    ``cause``       fingerprint of its failure, empty when it has none.
    ``node_fault``  a node was at fault: says nothing against the checkpoint or the code.
    ``ended``       the launcher lived to see its end.
    """

    number: int
    restarts: int
    started: bool
    ended: bool
    exit_code: int | None
    told_to_end: bool
    resumed_path: str
    resumed_step: int | None
    cause: str
    node_fault: bool

    @property
    def failed(self) -> bool:
        """It ran and ended badly by itself."""
        return self.started and not self.told_to_end and (not self.ended or bool(self.exit_code))

    @property
    def launcher_died(self) -> bool:
        return self.started and not self.ended


def past(events: Iterable[Event]) -> list[Past]:
    """The attempts so far, oldest first."""
    return [_one(group) for group in attempts(events)]


def _one(group: Sequence[Event]) -> Past:
    chosen = (last(group, "checkpoint") or {}).get("chosen") or {}
    end = last(group, "step_end") or {}
    evidence = last(group, "evidence") or {}
    return Past(
        number=int(group[0].get("attempt", 0)),
        restarts=int(group[0].get("restarts", 0)),
        started=last(group, "step_start") is not None,
        ended=bool(end),
        exit_code=end.get("exit_code"),
        told_to_end=bool(end.get("told_to_end")),
        resumed_path=str(chosen.get("path", "")),
        resumed_step=chosen.get("step"),
        cause=str(evidence.get("fingerprint", "")),
        node_fault=any(fault.get("fatal") for fault in evidence.get("faults") or ()),
    )


def struck(history: Sequence[Past]) -> frozenset[str]:
    """Checkpoints from which ``STRIKES`` attempts died with no newer one to show for it."""
    counts: Counter[str] = Counter()
    for index, one in enumerate(history):
        if not one.resumed_path or not one.failed or one.node_fault:
            continue
        if not any(
            _is_newer(later.resumed_step, one.resumed_step) for later in history[index + 1 :]
        ):
            counts[one.resumed_path] += 1
    return frozenset(path for path, count in counts.items() if count >= STRIKES)


def _is_newer(step: int | None, than: int | None) -> bool:
    return step is not None and (than is None or step > than)


def launcher_deaths(history: Sequence[Past]) -> int:
    """How many of the last attempts in a row ended with their launcher's death."""
    count = 0
    for one in reversed(history):
        if not one.launcher_died:
            break
        count += 1
    return count


def progressed(history: Sequence[Past], newest_step: int | None) -> bool | None:
    """Whether the last of ``history`` got beyond the checkpoint that it started from.

    ``newest_step`` is what is there now. ``None``: cannot be told (no steps in the names), which is
    not "no".
    """
    if not history:
        return None
    before = history[-1].resumed_step
    if newest_step is None:
        return None if history[-1].resumed_path or before is not None else False
    return before is None or newest_step > before
