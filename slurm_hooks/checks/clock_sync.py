"""Whether chronyd, ntpd or PTP synchronises the kernel's clock, as adjtimex(2) reports it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Six passes to open: chronyd needs a minute after its start."""

    open_after: int = 6
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - the type of every check
    if facts.host is not None and facts.host.clock_synced is False:
        yield finding(
            "CLOCK_UNSYNCED",
            subject="node",
            detail="the kernel's clock is not synchronised (STA_UNSYNC)",
        )


def could_see(finding: Finding, facts: NodeFacts) -> bool:  # noqa: ARG001 - the type of every check
    return facts.host is not None and facts.host.clock_synced is not None


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001
    host = facts.host
    if host is not None and host.clock_synced is not None:
        error = "" if host.clock_error_s is None else f", error <= {host.clock_error_s:.3f} s"
        word = "synchronised" if host.clock_synced else "not synchronised"
        yield Reading(subject="node", value=f"{word}{error}", limit="synchronised")


CHECK = Check(
    name="clock_sync",
    probe="host",
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
