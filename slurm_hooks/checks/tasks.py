"""Tasks that sleep beyond signals for minutes, and dead processes that nobody collects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_asleep_s``: how long a task may be in state D without running once (gcm: 300 s, gpud:
    five checks a minute apart). ``max_zombies``: of those that were there at the look before too.
    """

    max_asleep_s: float = 300.0
    max_zombies: int = 50
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_asleep_s=(1, 86400), max_zombies=(0, 1e6))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    long = [t for t in facts.d_state_tasks if (t.blocked_s or 0) >= limits.max_asleep_s]
    if long:
        named = ", ".join(f"{t.name} {t.tid} in {t.where}" for t in long[:_NAMED])
        more = f" and {len(long) - _NAMED} more" if len(long) > _NAMED else ""
        yield finding(
            "TASK_HUNG",
            subject="node",
            detail=f"{len(long)} tasks asleep for {limits.max_asleep_s:g} s: {named}{more}",
        )
    zombies = facts.system.old_zombies if facts.system else None
    if zombies is not None and zombies > limits.max_zombies:
        yield finding("ZOMBIES", subject="node", detail=f"{zombies} zombies that stay")


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    if facts.system is None:
        return
    tasks = facts.d_state_tasks
    longest = max((t.blocked_s or 0.0 for t in tasks), default=0.0)
    zombies = len(facts.system.zombies)
    yield Reading(
        subject="node",
        value=f"{len(tasks)} asleep, {longest:.0f} s at most, {zombies} zombies",
        limit=f"< {limits.max_asleep_s:g} s, <= {limits.max_zombies} zombies",
    )


CHECK = Check(
    name="tasks",
    probe="system",
    limits=Limits,
    judge=judge,
    show=show,
)
