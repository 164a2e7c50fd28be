"""NVMe drives and other local disks in the kernel log: removed by the kernel, timeouts, I/O errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.kernel_log import (
    HOUR_S,
    Most,
    Rules,
    counts_in_range,
    judge_events,
    show_events,
)
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Records of one disk that are allowed in an hour. ``ignore``: shell patterns of devices that are
    no disks of the node (container images, RAM disks, optical drives).
    """

    max_timeouts_per_hour: int = 3
    max_io_errors_per_hour: int = 0
    ignore: frozenset[str] = frozenset({"loop*", "ram*", "zram*", "sr*", "fd*"})
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        counts_in_range(self, "max_timeouts_per_hour", "max_io_errors_per_hour")


def _rules(limits: Limits) -> Rules:
    return {
        "NVME_FAILED": Most(),
        "NVME_TIMEOUT": Most(limits.max_timeouts_per_hour, HOUR_S),
        "DISK_IO_ERROR": Most(limits.max_io_errors_per_hour, HOUR_S),
    }


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for _, found in judge_events(facts, _rules(limits), limits.ignore):
        yield found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    yield from show_events(facts, _rules(limits), limits.ignore)


CHECK = Check(
    name="kernel_nvme",
    probe="kmsg",
    limits=Limits,
    judge=judge,
    show=show,
)
