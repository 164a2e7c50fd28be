"""Machine checks and memory errors (MCE, EDAC, firmware reports) in the kernel log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.checks.kernel_log import (
    DAY_S,
    Most,
    Rules,
    counts_in_range,
    judge_events,
    show_events,
)
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Corrected errors of one DIMM or CPU that are allowed: mcelog's defaults, 10 in 24 hours.
    ``boot_s``: an uncorrected machine check within this time after boot was left in the CPU's banks
    by the previous boot; the reboot that it requires has happened.
    """

    max_dimm_corrected_per_day: int = 10
    max_mce_corrected_per_day: int = 10
    boot_s: float = 60.0
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        counts_in_range(self, "max_dimm_corrected_per_day", "max_mce_corrected_per_day")
        within(self, boot_s=(0, 3600))


def _rules(limits: Limits) -> Rules:
    return {
        "MCE_UNCORRECTED": Most(),
        "MCE_CORRECTED": Most(limits.max_mce_corrected_per_day, DAY_S),
        "DIMM_UNCORRECTED": Most(),
        "DIMM_CORRECTED": Most(limits.max_dimm_corrected_per_day, DAY_S),
    }


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for event, found in judge_events(facts, _rules(limits)):
        if event.code == "MCE_UNCORRECTED" and event.at_s < limits.boot_s:
            detail = f"from before this boot: {found.detail}"
            yield finding("MCE_BEFORE_BOOT", subject=event.subject, detail=detail)
        else:
            yield found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    yield from show_events(facts, _rules(limits))


CHECK = Check(
    name="kernel_mce",
    probe="kmsg",
    limits=Limits,
    judge=judge,
    show=show,
)
