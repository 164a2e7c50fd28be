"""The mounts that jobs need: there, answering, writable, not full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import MountFacts, MountState, NodeFacts

NEEDS = "mounts"

_CODES = {
    MountState.GONE: "MOUNT_GONE",
    MountState.HUNG: "MOUNT_HUNG",
    MountState.FULL: "MOUNT_FULL",
    MountState.READ_ONLY: "MOUNT_READ_ONLY",
    MountState.ERROR: "MOUNT_GONE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``min_free_share``: least free share of a mount's space that counts as not full (0 to 1).

    Two passes open: a server that fails over is silent for some seconds.
    """

    min_free_share: float = 0.01
    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        if not 0 <= self.min_free_share < 1:
            raise ValueError(
                f"min_free_share must be from 0 to below 1, got {self.min_free_share:g}"
            )


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for mount in facts.mounts or ():
        if mount.state is not MountState.OK:
            detail = (
                f"{mount.path}: {mount.state.value}{' - ' if mount.detail else ''}{mount.detail}"
            )
            yield finding(_CODES[mount.state], subject=mount.path, detail=detail)
        elif (share := _free_share(mount)) is not None and share < limits.min_free_share:
            yield finding(
                "MOUNT_FULL",
                subject=mount.path,
                detail=f"{mount.path}: {share:.1%} of its space is free",
            )


def _free_share(mount: MountFacts) -> float | None:
    if not mount.total_bytes or mount.free_bytes is None:
        return None
    return mount.free_bytes / mount.total_bytes


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for mount in facts.mounts or ():
        share = _free_share(mount)
        value = mount.state.value
        if share is not None and mount.latency_s is not None:
            value = f"ok, {share:.0%} free, {mount.latency_s * 1000:.0f} ms"
        yield Reading(subject=mount.path, value=value, limit=f">= {limits.min_free_share:.0%} free")
