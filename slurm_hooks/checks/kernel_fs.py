"""Filesystem errors in the kernel log: ext4, xfs, btrfs, NFS, Lustre and virtiofs filesystems that
shut down, are corrupt or lost their server.

The check ``mounts`` tests whether the mounts that jobs need work. A filesystem that shut down is a
fault of the node if its device is mounted on the node. Otherwise it may be a user's image, and the
finding is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.kernel_log import (
    Most,
    Rules,
    judge_events,
    show_events,
)
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``ignore``: shell patterns of devices that hold users' filesystems (container images)."""

    ignore: frozenset[str] = frozenset({"loop*", "ram*", "zram*"})
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)


def _rules(_limits: Limits) -> Rules:
    return {
        "FS_SHUTDOWN": Most(),
        "FS_SHUTDOWN_UNCONFIRMED": Most(),  # until a probe knows the device
        "FS_ERROR": Most(),
        "FS_SERVER_LOST": Most(),
        "FS_EVICTED": Most(),
    }


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for _, found in judge_events(facts, _rules(limits), limits.ignore):
        yield found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    yield from show_events(facts, _rules(limits), limits.ignore)


CHECK = Check(
    name="kernel_fs",
    probe="kmsg",
    also=frozenset({"host"}),
    limits=Limits,
    judge=judge,
    show=show,
)
