"""InfiniBand ports that are missing, down, slow or flapping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from holdfast.text.wording import counted
from holdfast.vocabulary import Action
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts, PortFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``link_layers``: the ports that are judged (Ethernet ports are mostly the host's network).

    ``hcas``: cards that the node must have, by the kernel's names; empty: those that this machine
    had before, or that are on the PCI bus without a driver. ``min_rate_gbps``: of each port; 0: the
    highest rate that this port had before. ``max_downs``: times that a port may lose its link within
    ``window_s``, at most a day (NVIDIA's bring-up guide: two mean a bad link). Only a port that was
    ACTIVE before counts as down: one that never was may have no cable.
    """

    link_layers: frozenset[str] = frozenset({"InfiniBand"})
    hcas: frozenset[str] = frozenset()
    min_rate_gbps: float = 0.0
    max_downs: int = 1
    window_s: float = 86400.0
    open_after: int = 3
    clear_after: int = 3

    def __post_init__(self) -> None:
        limits_in_range(self)
        if not 0 <= self.min_rate_gbps <= 1e5:
            raise ValueError(f"min_rate_gbps must be from 0 to 100000, got {self.min_rate_gbps:g}")
        within(self, max_downs=(0, 1000))
        if not 0 < self.window_s <= 86400:
            raise ValueError(f"window_s must be above 0 and at most a day, got {self.window_s:g}")


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    if facts.ports is not None:
        yield from _missing(facts, limits)
    for port in _ports(facts, limits):
        if port.seen_active and port.state not in ("ACTIVE", ""):
            yield finding(
                "IB_DOWN",
                subject=port.subject,
                detail=f"{port.subject} is {port.state} ({port.phys_state or 'no physical state'})",
            )
        want = _wanted_gbps(port, limits)
        if port.state == "ACTIVE" and port.rate_gbps and want and port.rate_gbps < want:
            yield finding(
                "IB_RATE",
                subject=port.subject,
                detail=f"{port.subject} runs at {port.rate_gbps:g} Gb/s, expected {want:g}",
            )
        downs = _downs(port, limits)
        if downs is not None and downs > limits.max_downs:
            often = counted(downs, "time")
            yield finding(
                "IB_FLAP",
                subject=port.subject,
                detail=f"{port.subject} lost its link {often} in {limits.window_s / 3600:g} hours",
                left_s=_left_s(port, limits),
            )


def _missing(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    ports = facts.ports or ()
    present = {port.device for port in ports if port.present}
    lost = {
        port.device: port
        for port in ports
        if not port.present and port.link_layer in limits.link_layers
    }
    for device in sorted(limits.hcas or lost.keys()):
        if device not in present:
            yield _gone(device, lost.get(device))
    if not (ports or limits.hcas) and "InfiniBand" in limits.link_layers:
        for pci in facts.cards_on_bus:
            detail = f"InfiniBand card {pci} is on the PCI bus without a driver"
            yield finding("IB_MISSING", subject=pci, detail=detail)


def _gone(device: str, was: PortFacts | None) -> Finding:
    what = f"is now named {was.now_called}" if was and was.now_called else "is missing"
    before_boot = was is not None and was.before_boot
    found = finding(
        "IB_MISSING",
        subject=device,
        detail=f"InfiniBand card {device} {what}{' since before this boot' if before_boot else ''}",
    )
    # The reboot that it requires has happened. It clears when the card is present again.
    return replace(found, action=Action.WAIT) if before_boot else found


def could_see(finding: Finding, facts: NodeFacts) -> bool:
    """False for a port that is missing or unreadable: it is not known to be up again."""
    if finding.code == "IB_MISSING":
        return True
    return any(
        port.subject == finding.subject and port.present and port.state and port.link_layer
        for port in facts.ports or ()
    )


def _wanted_gbps(port: PortFacts, limits: Limits) -> float | None:
    return limits.min_rate_gbps or port.best_gbps


def _downs(port: PortFacts, limits: Limits) -> int | None:
    if port.downs_age_s is None:
        return None
    return sum(age <= limits.window_s for age in port.downs_age_s)


def _left_s(port: PortFacts, limits: Limits) -> float:
    """Seconds until enough losses have left the window for the rest to be allowed."""
    youngest_first = sorted(port.downs_age_s or ())
    return limits.window_s - youngest_first[limits.max_downs]


def _ports(facts: NodeFacts, limits: Limits) -> Iterator[PortFacts]:
    yield from (
        port for port in facts.ports or () if port.present and port.link_layer in limits.link_layers
    )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for port in _ports(facts, limits):
        downs, want = _downs(port, limits), _wanted_gbps(port, limits)
        rate = f"{port.rate_gbps:g} Gb/s" if port.rate_gbps else "rate unknown"
        yield Reading(
            subject=port.subject,
            value=f"{port.state or '?'}, {rate}, {'?' if downs is None else downs} downs",
            limit=f"ACTIVE{f', >= {want:g} Gb/s' if want else ''}, <= {limits.max_downs} downs",
        )


CHECK = Check(
    name="infiniband",
    probe="infiniband",
    also=frozenset({"pcie"}),
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
