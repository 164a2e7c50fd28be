"""Memory of the machine: the expected size, and enough of it available."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import HostFacts, NodeFacts

_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``total_gib``: MemTotal of a healthy node in GiB; 0: not judged. ``tolerance``: the share of it
    that may be missing (azurehpc-health-checks: 5 percent). ``min_available_share``: MemAvailable as
    a share of MemTotal; below it the OOM killer is close.
    """

    total_gib: float = 0.0
    tolerance: float = 0.05
    min_available_share: float = 0.01
    open_after: int = 3
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, total_gib=(0, 1 << 20))
        for name in ("tolerance", "min_available_share"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name} must be from 0 to below 1, got {value:g}")


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    host = facts.host
    if host is None or not host.memory_total_bytes:
        return
    total_gib = host.memory_total_bytes / _GIB
    if total_gib < limits.total_gib * (1 - limits.tolerance):
        yield finding(
            "MEMORY_MISSING",
            subject="node",
            detail=f"{total_gib:.0f} GiB of memory, expected {limits.total_gib:g}",
        )
    share = _available(host)
    if share is not None and share < limits.min_available_share:
        yield finding("MEMORY_LOW", subject="node", detail=f"{share:.1%} of memory available")


def _available(host: HostFacts) -> float | None:
    if host.memory_available_bytes is None or not host.memory_total_bytes:
        return None
    return host.memory_available_bytes / host.memory_total_bytes


def could_see(finding: Finding, facts: NodeFacts) -> bool:  # noqa: ARG001 - the type of every check
    return facts.host is not None and _available(facts.host) is not None


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    host = facts.host
    if host is None or not host.memory_total_bytes:
        return
    share = _available(host)
    total = f", >= {limits.total_gib * (1 - limits.tolerance):.0f} GiB" if limits.total_gib else ""
    yield Reading(
        subject="node",
        value=(
            f"{host.memory_total_bytes / _GIB:.0f} GiB"
            f"{'' if share is None else f', {share:.0%} available'}"
        ),
        limit=f">= {limits.min_available_share:.0%} available{total}",
    )


CHECK = Check(
    name="memory",
    probe="host",
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
