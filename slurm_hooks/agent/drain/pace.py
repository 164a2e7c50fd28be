"""How often the agent asks slurmctld, and changes the node's comment: at transitions, and seldom while
nothing changes.

Ten thousand agents share one slurmctld. A fault that stays open changes nothing in Slurm, and a thousand
agents that failed together must not try again together.
"""

from __future__ import annotations

import random

from holdfast.policy.flap_damping import next_change_at
from slurm_hooks.agent.drain.messages import SlurmStatus
from slurm_hooks.settings.sections import AgentConfig

UNCHANGED_PASSES = 3
"""A node whose fault stays open is read again after so many passes: only other users can change it. While nobody
does, the number doubles."""
OUT_PASSES = 12
"""The most passes between two reads of a drained node whose fault stays open."""
WAITING_PASSES = 30
"""A drained node without an open fault is read at each of so many passes, and after them less often."""
OVER_BUDGET_PASSES = 60
"""The most passes between two counts of the budget while the node is over it."""
RECOUNT_S = 1.5
"""After a drain the budget is counted again, once the second of the drain is over: slurmctld reports whole
seconds, and the order within one is that of the names."""
RECOUNT_FOR_S = 60.0
"""Agents of which each knew that the budget had plenty of room count again within this time: of a thousand that
drained together, not all at once."""
LONGEST_RETRY_S = 60.0
_COMMENTS_KEPT = 64


class Pace:
    """``failures``: steps that failed in a row. ``look_at``: the monotonic time at which Slurm is asked
    again though nothing changed here. ``recount_at``: from which the budget is counted again."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._unchanged = 0
        self.failures = 0
        self.look_at = self.recount_at = float("inf")
        self._commented_at: tuple[float, ...] = ()

    @property
    def waits(self) -> bool:
        """The last steps led to the same state again and again."""
        return self._unchanged >= WAITING_PASSES

    def done(
        self, before: SlurmStatus, after: SlurmStatus, now: float, *, fault_open: bool = False
    ) -> None:
        """A step succeeded. ``fault_open``: the node cannot return to service yet."""
        self.failures = 0
        same = (after.action, after.drained) == (before.action, before.drained)
        self._unchanged = self._unchanged + 1 if same else 0
        passes = UNCHANGED_PASSES
        if fault_open:
            most = OVER_BUDGET_PASSES if after.action == "over-budget" else OUT_PASSES
            passes = min(passes << min(self._unchanged, 8), most)
        self.look_at = now + passes * self._config.interval_s * _spread(0.25)

    def failed(self, now: float) -> float:
        """A step failed. The monotonic time of the next one."""
        self.failures += 1
        retry_s = self._config.act_retry_s
        wait_s = retry_s * 2.0 ** min(self.failures - 1, 16)
        return now + min(wait_s, max(LONGEST_RETRY_S, retry_s)) * _spread(0.5)

    def drained(self, now: float, *, has_room: bool) -> None:
        """The node was drained. ``has_room``: the budget had plenty of room after it."""
        wait_s = random.uniform(0, RECOUNT_FOR_S) if has_room else 0.0
        self.recount_at = now + RECOUNT_S + wait_s

    def commented(self, times: int, now: float) -> None:
        """The node's comment was changed so often by one step."""
        self._commented_at = (*self._commented_at, *[now] * times)[-_COMMENTS_KEPT:]

    def comment_at(self, now: float) -> float:
        """Monotonic time from which the comment may change again; ``now`` if it may change now."""
        return next_change_at(self._commented_at, self._config, now)


def _spread(part: float) -> float:
    """A factor around 1: agents that start together must not all ask together."""
    return random.uniform(1 - part, 1 + part)
