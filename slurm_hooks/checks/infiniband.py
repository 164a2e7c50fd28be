"""InfiniBand ports: down, and flapping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts, PortFacts

NEEDS = "infiniband"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``link_layers``: which ports count (Ethernet ports are mostly the host's own network).

    ``max_downs``: link losses of one port within ``window_s``, at most a day (NVIDIA's bring-up
    guide: two are a bad link). Only a port that was ACTIVE before can be down: one that never was
    has no cable.
    """

    link_layers: frozenset[str] = frozenset({"InfiniBand"})
    max_downs: int = 1
    window_s: float = 86400.0
    open_after: int = 3
    clear_after: int = 3

    def __post_init__(self) -> None:
        limits_in_range(self)
        if self.max_downs < 0:
            raise ValueError(f"max_downs must not be negative, got {self.max_downs}")
        if not 0 < self.window_s <= 86400:
            raise ValueError(f"window_s must be above 0 and at most a day, got {self.window_s:g}")


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for port in _ports(facts, limits):
        if port.seen_active and port.state != "ACTIVE":
            yield finding(
                "IB_DOWN",
                subject=port.subject,
                detail=f"{port.subject} is {port.state} ({port.phys_state or 'no physical state'})",
            )
        downs = _downs(port, limits)
        if downs is not None and downs > limits.max_downs:
            yield finding(
                "IB_FLAP",
                subject=port.subject,
                detail=f"{port.subject} lost its link {downs} times in {limits.window_s / 3600:g} hours",
            )


def _downs(port: PortFacts, limits: Limits) -> int | None:
    if port.downs_age_s is None:
        return None
    return sum(age <= limits.window_s for age in port.downs_age_s)


def _ports(facts: NodeFacts, limits: Limits) -> Iterator[PortFacts]:
    yield from (port for port in facts.ports or () if port.link_layer in limits.link_layers)


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for port in _ports(facts, limits):
        downs = _downs(port, limits)
        yield Reading(
            subject=port.subject,
            value=f"{port.state}, {'?' if downs is None else downs} downs",
            limit=f"ACTIVE, <= {limits.max_downs} downs",
        )
