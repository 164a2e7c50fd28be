"""Mounts that jobs need (``node.mounts``): mounted from the right source, responsive, writable, not full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import MountFacts, MountState, NodeFacts

_CODES = {
    MountState.GONE: "MOUNT_GONE",
    MountState.HUNG: "MOUNT_HUNG",
    MountState.FULL: "MOUNT_FULL",
    MountState.READ_ONLY: "MOUNT_READ_ONLY",
    MountState.ERROR: "MOUNT_GONE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``min_free_share``, ``min_free_inodes_share``: least free share of space (0 to 1), and of inodes
    where the filesystem counts them. ``max_latency_s``: longest time to write, read and remove a
    small file. ``sources``: what must be mounted, by mount point: ``FSTYPE`` or ``FSTYPE SOURCE`` as
    in /proc/mounts; a mount point without an entry is not judged.

    Two passes to open: a server that fails over does not answer for some seconds.
    """

    min_free_share: float = 0.01
    min_free_inodes_share: float = 0.01
    max_latency_s: float = 1.0
    sources: Mapping[str, str] = field(default_factory=dict)
    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_latency_s=(0.001, 600))
        for name in ("min_free_share", "min_free_inodes_share"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name} must be from 0 to below 1, got {value:g}")


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for mount in facts.mounts or ():
        yield from _wrong(mount, limits)
        if mount.state is not MountState.OK:
            detail = (
                f"{mount.path}: {mount.state.value}{' - ' if mount.detail else ''}{mount.detail}"
            )
            yield finding(_CODES[mount.state], subject=mount.path, detail=detail)
            continue
        full = ", ".join(_full(mount, limits))
        if full:
            yield finding("MOUNT_FULL", subject=mount.path, detail=f"{mount.path}: {full}")
        if (mount.latency_s or 0) > limits.max_latency_s:
            yield finding(
                "MOUNT_SLOW",
                subject=mount.path,
                detail=f"{mount.path}: a small write took {mount.latency_s:.1f} s",
            )


def _wrong(mount: MountFacts, limits: Limits) -> Iterator[Finding]:
    wanted = limits.sources.get(mount.path, "")
    fs_type, _, source = wanted.partition(" ")
    if not mount.fs_type or not fs_type:
        return
    if mount.fs_type != fs_type or (source and mount.source != source):
        yield finding(
            "MOUNT_WRONG",
            subject=mount.path,
            detail=f"{mount.path}: {mount.fs_type} from {mount.source}, expected {wanted}",
        )


def _full(mount: MountFacts, limits: Limits) -> Iterator[str]:
    share, inodes = _share(mount.free_bytes, mount.total_bytes), _inodes(mount)
    if share is not None and share < limits.min_free_share:
        yield f"{share:.1%} of space free"
    if inodes is not None and inodes < limits.min_free_inodes_share:
        yield f"{inodes:.1%} of inodes free"


def _inodes(mount: MountFacts) -> float | None:
    """None where the filesystem creates inodes on demand and reports none."""
    return _share(mount.free_inodes, mount.inodes)


def _share(free: int | None, total: int | None) -> float | None:
    return free / total if total and free is not None else None


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for mount in facts.mounts or ():
        share = _share(mount.free_bytes, mount.total_bytes)
        value = mount.state.value
        if share is not None and mount.latency_s is not None:
            value = f"ok, {share:.0%} free, {mount.latency_s * 1000:.0f} ms"
        yield Reading(
            subject=mount.path,
            value=value,
            limit=f">= {limits.min_free_share:.0%} free, <= {limits.max_latency_s:g} s",
        )


CHECK = Check(
    name="mounts",
    probe="mounts",
    limits=Limits,
    judge=judge,
    show=show,
)
