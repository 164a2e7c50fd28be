"""The return test: an active check between a clean re-check and a node's return to service. Pure.

A drained node runs no job, so for its test it is undrained inside a reservation that keeps other jobs
off it. ``ReservedBy`` is the state of that reservation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ReturnTestMode(str, Enum):
    """Whether an active check runs before a node's return (``agent.return_test``)."""

    OFF = "off"
    OBSERVE = "observe"
    """It runs and its result is recorded; the node returns whatever the result."""
    REQUIRE = "require"
    """The node returns only if the check passed. Where its program is missing, the node stays drained."""


class ReservedBy(str, Enum):
    """Whose reservation keeps other jobs off the node for a test."""

    NOBODY = "nobody"
    THIS_AGENT = "this-agent"
    """This agent's own, or one that a killed process left behind: this agent has to end it."""
    OTHERS = "others"
    """An inspection in progress: it restores the node's state itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnTestResult:
    """The result of the active check for one drain. ``reason`` is that drain's exact text; ``verdict`` is
    passed, failed or error.
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


def may_return(
    mode: ReturnTestMode, test_result: ReturnTestResult | None, reason: str
) -> bool | None:
    """May the node, drained with ``reason``, return? None: its test has not run yet."""
    if mode is ReturnTestMode.OFF:
        return True
    if test_result is None or test_result.reason != reason:
        return None
    return test_result.passed or mode is ReturnTestMode.OBSERVE
