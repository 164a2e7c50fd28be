"""Errors on NVLinks that are up: data-link recoveries, replays, and a high rate of CRC errors.

Counters are judged by their recent increase, never by their value (rule 9). The thresholds are
those of DCGM's NVLink health watch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFacts, NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_recoveries_per_h``, ``max_replays_per_h``: allowed on all links of one GPU in an hour.
    ``max_crc_per_s``: CRC errors per second, mean of the last minute.
    """

    max_recoveries_per_h: int = 0
    max_replays_per_h: int = 0
    max_crc_per_s: float = 100.0
    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        rate = (0, 1e9)
        within(self, max_recoveries_per_h=rate, max_replays_per_h=rate, max_crc_per_s=rate)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for gpu in facts.gpus:
        what = ", ".join(_exceeded(gpu, limits))
        if what:
            links = ", ".join(str(link) for link in gpu.deltas.bad_links)
            where = f" on links {links}" if links else ""
            yield finding(
                "NVLINK_ERRORS",
                subject=gpu.subject,
                detail=f"{gpu.where}: {what}{where}",
                gpu=gpu.index,
            )


def _exceeded(gpu: GpuFacts, limits: Limits) -> Iterator[str]:
    deltas = gpu.deltas
    if deltas.link_recoveries is not None and deltas.link_recoveries > limits.max_recoveries_per_h:
        yield f"{deltas.link_recoveries} NVLink recoveries"
    if deltas.link_replays is not None and deltas.link_replays > limits.max_replays_per_h:
        yield f"{deltas.link_replays} NVLink replays"
    if deltas.link_crc_per_s is not None and deltas.link_crc_per_s > limits.max_crc_per_s:
        yield f"{deltas.link_crc_per_s:.0f} NVLink CRC errors per second"


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    limit = (
        f"<= {limits.max_recoveries_per_h}, <= {limits.max_replays_per_h}, "
        f"<= {limits.max_crc_per_s:g}/s"
    )
    for gpu in facts.gpus:
        deltas = gpu.deltas
        if gpu.link_crc_errors is None and gpu.link_replays is None:
            continue
        rate = "?" if deltas.link_crc_per_s is None else f"{deltas.link_crc_per_s:.1f}"
        yield Reading(
            subject=gpu.subject,
            value=f"{_count(deltas.link_recoveries)} recoveries, {_count(deltas.link_replays)} replays "
            f"in the last hour, {rate} CRC/s",
            limit=limit,
        )


def _count(value: int | None) -> str:
    return "?" if value is None else str(value)


CHECK = Check(
    name="gpu_nvlink_errors",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
