"""Local filesystems (``node.disks``): free space, free inodes, and not remounted read-only by an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import DiskFacts, NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``min_free_share``, ``min_free_inodes_share``: least free share of space and of inodes (0 to
    1). The kubelet evicts pods at 10 and 5 percent; below 3 percent a node soon cannot write logs.

    A filesystem that was read-only when the agent first saw it is not judged.
    """

    min_free_share: float = 0.03
    min_free_inodes_share: float = 0.03
    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        for name in ("min_free_share", "min_free_inodes_share"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name} must be from 0 to below 1, got {value:g}")


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for disk in facts.host.disks if facts.host else ():
        if disk.turned_read_only:
            yield finding(
                "DISK_READ_ONLY", subject=disk.path, detail=f"{disk.path} became read-only"
            )
        full = ", ".join(_full(disk, limits))
        if full and not disk.read_only:
            yield finding("DISK_FULL", subject=disk.path, detail=f"{disk.path}: {full}")


def _full(disk: DiskFacts, limits: Limits) -> Iterator[str]:
    if disk.total_bytes and disk.free_bytes / disk.total_bytes < limits.min_free_share:
        yield f"{disk.free_bytes / disk.total_bytes:.1%} of space free"
    if disk.inodes and disk.free_inodes / disk.inodes < limits.min_free_inodes_share:
        yield f"{disk.free_inodes / disk.inodes:.1%} of inodes free"


def could_see(finding: Finding, facts: NodeFacts) -> bool:
    disks = facts.host.disks if facts.host else ()
    return any(disk.path == finding.subject for disk in disks)


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for disk in facts.host.disks if facts.host else ():
        share = disk.free_bytes / disk.total_bytes if disk.total_bytes else 1.0
        word = "read-only" if disk.read_only else "writable"
        yield Reading(
            subject=disk.path,
            value=f"{word}, {share:.0%} free",
            limit=f">= {limits.min_free_share:.0%} free",
        )


CHECK = Check(
    name="disks",
    probe="host",
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
