"""The gate back: an active check between a clean re-check and the return of a node. Pure.

A drained node runs no job, so for its test it is undrained inside a reservation that keeps everybody
else off it; ``Held`` says whether that is so, and who tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class GateBack(str, Enum):
    """Whether an active check stands before a node's return."""

    OFF = "off"
    OBSERVE = "observe"
    """It runs and is written down; the node returns whatever it says."""
    REQUIRE = "require"
    """The node returns only if it passed. Where its program is missing the node stays out."""


class Held(str, Enum):
    """A reservation of Holdfast that keeps the node for a test."""

    NO = "no"
    BY_US = "by-us"
    """Our own, or one that somebody left behind: it is for us to end."""
    BY_OTHERS = "by-others"
    """An inspection that is under way: whoever made it puts everything back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of the active check for one drain. ``reason`` is that drain's exact text; ``verdict`` is
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
    def said(self) -> str:
        """One clause for people."""
        return f"{self.check} {self.verdict}" + (f": {self.detail}" if self.detail else "")


def opens(gate: GateBack, trial: Trial | None, reason: str) -> bool | None:
    """May the node, drained with ``reason``, return? None: its test has not run yet."""
    if gate is GateBack.OFF:
        return True
    if trial is None or trial.reason != reason:
        return None
    return trial.passed or gate is GateBack.OBSERVE
