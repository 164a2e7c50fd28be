"""What the bridge tells running jobs in the reason of a drained node: leave it, and by when. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.policy.budget import KUBE_RULE
from holdfast.reason import Reason

_JOBS, _LEAVE, _UNTIL = "jobs", "leave", "until"
_LATEST_S = 253_402_300_799
"""The end of the year 9999: ``datetime`` has no later time."""
STEP_S = 5
"""Times are rounded down to multiples of this, so that nodes with about the same time are one write."""


class Leave(NamedTuple):
    """``until``: when the machine is stopped, epoch seconds; ``None``: not known."""

    until: float | None


def pairs(until: float | None) -> Mapping[str, str]:
    """For the reason."""
    if until is None:
        return {_JOBS: _LEAVE}
    return {_JOBS: _LEAVE, _UNTIL: str(max(0, rounded(until)))}


def rounded(until: float) -> int:
    return int(until // STEP_S * STEP_S)


def leave_of(reason: Reason) -> Leave | None:
    """``None``: jobs stay."""
    if reason.code != KUBE_RULE or reason.pairs.get(_JOBS) != _LEAVE:
        return None
    until = reason.pairs.get(_UNTIL, "")
    known = until.isascii() and until.isdigit() and len(until) <= len(str(_LATEST_S))
    return Leave(float(until) if known and int(until) <= _LATEST_S else None)
