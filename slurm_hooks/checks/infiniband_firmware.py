"""Firmware of InfiniBand cards: the version that the site requires, or the same on all cards of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts, PortFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``versions``: the allowed ones; empty: any, but the same on all cards of one board id."""

    versions: frozenset[str] = frozenset()
    open_after: int = 2
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    usual = _usual(facts)
    for device, port in _cards(facts).items():
        allowed = limits.versions or {usual[port.board]}
        if port.firmware not in allowed:
            yield finding(
                "IB_FIRMWARE",
                subject=device,
                detail=f"{device} has firmware {port.firmware}, expected {' or '.join(sorted(allowed))}",
            )


def _cards(facts: NodeFacts) -> dict[str, PortFacts]:
    return {port.device: port for port in facts.ports or () if port.present and port.firmware}


def _usual(facts: NodeFacts) -> dict[str, str]:
    """Board id → the version that most of its cards have."""
    found: dict[str, list[str]] = {}
    for port in _cards(facts).values():
        found.setdefault(port.board, []).append(port.firmware)
    return {board: max(sorted(has), key=has.count) for board, has in found.items()}


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    usual = _usual(facts)
    for device, port in _cards(facts).items():
        allowed = limits.versions or {usual[port.board]}
        limit = f"= {' or '.join(sorted(allowed))}"
        yield Reading(subject=device, value=port.firmware, limit=limit)


CHECK = Check(
    name="infiniband_firmware",
    probe="infiniband",
    limits=Limits,
    judge=judge,
    show=show,
)
