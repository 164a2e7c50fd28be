"""The return test: an active check between a clean re-check and a node's return to service. Pure.

A drained node runs no job, so for its test it is undrained inside a reservation that keeps other jobs
off it. ``Held`` is the state of that reservation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ReturnTestMode(str, Enum):
    """Whether an active check runs before a node's return (``agent.gate_back``)."""

    OFF = "off"
    OBSERVE = "observe"
    """It runs and its result is recorded; the node returns whatever the result."""
    REQUIRE = "require"
    """The node returns only if the check passed. Where its program is missing, the node stays drained."""


class Held(str, Enum):
    """Whether a reservation of Holdfast's holds the node for a test."""

    NO = "no"
    BY_US = "by-us"
    """This agent's own, or one that a killed process left behind: this agent has to end it."""
    BY_OTHERS = "by-others"
    """An inspection in progress: it restores the node's state itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of the active check for one drain. ``reason`` is that drain's exact text; ``verdict`` is
    passed, failed or could-not-run.
    """

    reason: str
    check: str
    verdict: str
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.verdict == "passed"

    @property
    def summary(self) -> str:
        """The result as one clause."""
        return f"{self.check} {self.verdict}" + (f": {self.detail}" if self.detail else "")


def may_return(mode: ReturnTestMode, trial: Trial | None, reason: str) -> bool | None:
    """May the node, drained with ``reason``, return? None: its test has not run yet."""
    if mode is ReturnTestMode.OFF:
        return True
    if trial is None or trial.reason != reason:
        return None
    return trial.passed or mode is ReturnTestMode.OBSERVE
