"""The machine around the GPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFacts:
    """This node's clock minus slurmctld's; the true value lies within ``error_s`` of ``skew_s``."""

    skew_s: float
    error_s: float
