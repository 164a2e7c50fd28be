"""Errors on NVLinks that are up: data-link recoveries and replays, and CRC errors that come fast.

Counters are judged by what they counted lately, never by their value (law 9). Thresholds: DCGM's
NVLink health watch.
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
    """``max_recoveries_per_h``, ``max_replays_per_h``: tolerated on all links of one GPU in an
    hour. ``max_crc_per_s``: CRC errors a second, as a mean of the last minute."""

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
        what = ", ".join(_beyond(gpu, limits))
        if what:
            links = ", ".join(str(link) for link in gpu.news.bad_links)
            where = f" on links {links}" if links else ""
            yield finding(
                "NVLINK_ERRORS",
                subject=gpu.subject,
                detail=f"{gpu.where}: {what}{where}",
                gpu=gpu.index,
            )


def _beyond(gpu: GpuFacts, limits: Limits) -> Iterator[str]:
    news = gpu.news
    if news.link_recoveries is not None and news.link_recoveries > limits.max_recoveries_per_h:
        yield f"{news.link_recoveries} NVLink recoveries"
    if news.link_replays is not None and news.link_replays > limits.max_replays_per_h:
        yield f"{news.link_replays} NVLink replays"
    if news.link_crc_per_s is not None and news.link_crc_per_s > limits.max_crc_per_s:
        yield f"{news.link_crc_per_s:.0f} NVLink CRC errors a second"


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    limit = (
        f"<= {limits.max_recoveries_per_h}, <= {limits.max_replays_per_h}, "
        f"<= {limits.max_crc_per_s:g}/s"
    )
    for gpu in facts.gpus:
        news = gpu.news
        if gpu.link_crc_errors is None and gpu.link_replays is None:
            continue
        rate = "?" if news.link_crc_per_s is None else f"{news.link_crc_per_s:.1f}"
        yield Reading(
            subject=gpu.subject,
            value=f"{_count(news.link_recoveries)} recoveries, {_count(news.link_replays)} replays "
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
