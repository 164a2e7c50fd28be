"""Bit error rates of InfiniBand links, before and after retransmission, as the card counts them.

They need mlxlink of NVIDIA's firmware tools. The check infiniband_errors reads the symbol errors
in sysfs, which every node has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import LinkFacts, NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """NVIDIA's limits for links of up to 100 m with RS-FEC. For longer links and for KP4-FEC they are
    5e-15 and 1e-14 for the effective rate too. ``min_minutes``: how long the counters must have run
    before a rate is judged.
    """

    warn_effective_ber: float = 5e-12
    max_effective_ber: float = 1e-11
    warn_symbol_ber: float = 5e-15
    max_symbol_ber: float = 1e-14
    min_minutes: float = 125.0
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, min_minutes=(0, 1e6), max_effective_ber=(0, 1), max_symbol_ber=(0, 1))
        for kind in ("effective", "symbol"):
            warn, most = getattr(self, f"warn_{kind}_ber"), getattr(self, f"max_{kind}_ber")
            if not 0 <= warn <= most:
                raise ValueError(
                    f"warn_{kind}_ber must be between 0 and max_{kind}_ber ({most:g}), got {warn:g}"
                )


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for link in _links(facts, limits):
        bad, rising = _over(link, limits, "max"), _over(link, limits, "warn")
        if bad or rising:
            yield finding(
                "IB_BER" if bad else "IB_BER_RISING",
                subject=link.device,
                detail=f"{link.device}: {', '.join(bad or rising)} in {link.minutes:.0f} minutes",
            )


def _over(link: LinkFacts, limits: Limits, which: str) -> list[str]:
    rates = (("effective", link.effective_ber), ("symbol", link.symbol_ber))
    return [
        f"{kind} BER {ber:.0e}"
        for kind, ber in rates
        if ber is not None and ber > getattr(limits, f"{which}_{kind}_ber")
    ]


def _links(facts: NodeFacts, limits: Limits) -> Iterator[LinkFacts]:
    for link in facts.links or ():
        if link.minutes is not None and link.minutes >= limits.min_minutes:
            yield link


def could_see(finding: Finding, facts: NodeFacts) -> bool:
    return any(
        link.device == finding.subject and None not in (link.effective_ber, link.minutes)
        for link in facts.links or ()
    )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for link in facts.links or ():
        rates = [
            "?" if ber is None else f"{ber:.0e}" for ber in (link.effective_ber, link.symbol_ber)
        ]
        note = (
            "" if link in set(_links(facts, limits)) else ", counters not yet old enough to judge"
        )
        yield Reading(
            subject=link.device,
            value=f"effective {rates[0]}, symbol {rates[1]}{note}",
            limit=f"<= {limits.max_effective_ber:g}, <= {limits.max_symbol_ber:g}",
        )


CHECK = Check(
    name="infiniband_ber",
    probe="mlxlink",
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
