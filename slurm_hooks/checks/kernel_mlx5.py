"""Network adapters (mlx5) in the kernel log: failed firmware, bad cables and transceivers, slots with
too little power.

The check ``infiniband`` reads the state of the ports.
"""

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
    """``max_module_per_hour``: records about the cable or transceiver of one adapter that are allowed.
    ``ignore``: shell patterns of PCI addresses.
    """

    max_module_per_hour: int = 0
    ignore: frozenset[str] = frozenset()
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        counts_in_range(self, "max_module_per_hour")


def _rules(limits: Limits) -> Rules:
    return {
        "MLX5_HEALTH": Most(),
        "MLX5_COMMAND": Most(),
        "MLX5_MODULE": Most(limits.max_module_per_hour, HOUR_S),
        "MLX5_POWER": Most(),
    }


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for _, found in judge_events(facts, _rules(limits), limits.ignore):
        yield found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    yield from show_events(facts, _rules(limits), limits.ignore)


CHECK = Check(
    name="kernel_mlx5",
    probe="kmsg",
    limits=Limits,
    judge=judge,
    show=show,
)
