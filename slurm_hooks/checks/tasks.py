"""Tasks that hang in uninterruptible sleep (state D), and zombie processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from holdfast.text.wording import counted
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import DStateTask, NodeFacts

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_asleep_s``: how long a task may be in state D without running once (gcm: 300 s; gpud:
    five checks, one minute apart). ``max_zombies``: zombies that the previous scan saw too.
    """

    max_asleep_s: float = 300.0
    max_zombies: int = 50
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_asleep_s=(1, 86400), max_zombies=(0, 1e6))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    hung = _hung(facts, limits)
    if hung:
        named = ", ".join(f"{t.name} {t.tid} in {t.where}" for t in hung[:_NAMED])
        more = f" and {len(hung) - _NAMED} more" if len(hung) > _NAMED else ""
        yield finding(
            "TASK_HUNG",
            subject="node",
            detail=f"{counted(len(hung), 'task')} in state D for {limits.max_asleep_s:g} s: {named}{more}",
        )
    zombies = facts.system.old_zombies if facts.system else None
    if zombies is not None and zombies > limits.max_zombies:
        yield finding("ZOMBIES", subject="node", detail=f"{zombies} zombie processes")


def _hung(facts: NodeFacts, limits: Limits) -> list[DStateTask]:
    return [task for task in facts.d_state_tasks if (task.blocked_s or 0) >= limits.max_asleep_s]


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    if facts.system is None:
        return
    tasks = facts.d_state_tasks
    longest = max((t.blocked_s or 0.0 for t in tasks), default=0.0)
    zombies = len(facts.system.zombies)
    yield Reading(
        subject="node",
        value=f"{counted(len(_hung(facts, limits)), 'hung task')} ({len(tasks)} in state D for up to "
        f"{longest:.0f} s), {zombies} zombies",
        limit=f"< {limits.max_asleep_s:g} s, <= {limits.max_zombies} zombies",
    )


CHECK = Check(
    name="tasks",
    probe="system",
    limits=Limits,
    judge=judge,
    show=show,
)
