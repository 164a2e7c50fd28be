"""InfiniBand link errors: the symbol error rate, and the errors of a bad cable.

Only errors since the baseline count, and a counter at its maximum is unknown (rule 9). Discards are
shown and never judged: they come from congestion in the fabric, not from the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts, PortFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sources: NVIDIA's bring-up guide (symbol error rates 5e-15 and 1e-14 over 125 minutes) and
    NVSentinel (the other rates; one link integrity error or buffer overrun is already a finding).

    ``warn_ber``, ``max_ber``: symbol errors per bit. ``max_recoveries_per_min``,
    ``max_receive_errors_per_s``: means of ten minutes. ``max_integrity``: local link integrity
    errors and excessive buffer overruns since the baseline.
    """

    link_layers: frozenset[str] = frozenset({"InfiniBand"})
    warn_ber: float = 5e-15
    max_ber: float = 1e-14
    max_recoveries_per_min: float = 5.0
    max_receive_errors_per_s: float = 10.0
    max_integrity: int = 0
    open_after: int = 2
    clear_after: int = 6

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(
            self,
            max_ber=(0, 1),
            max_recoveries_per_min=(0, 1e6),
            max_receive_errors_per_s=(0, 1e9),
            max_integrity=(0, 1e9),
        )
        if not 0 < self.warn_ber <= self.max_ber:
            raise ValueError(
                f"warn_ber must be above 0 and at most max_ber ({self.max_ber:g}), "
                f"got {self.warn_ber:g}"
            )


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for port in _ports(facts, limits):
        ber = port.deltas.symbol_ber
        if ber is not None and ber > limits.warn_ber:
            yield finding(
                "IB_BER" if ber > limits.max_ber else "IB_BER_RISING",
                subject=port.subject,
                detail=f"{port.subject}: {ber:.1e} symbol errors per bit in 125 minutes",
            )
        errors = ", ".join(_errors(port, limits))
        if errors:
            yield finding("IB_ERRORS", subject=port.subject, detail=f"{port.subject}: {errors}")


def _errors(port: PortFacts, limits: Limits) -> Iterator[str]:
    deltas = port.deltas
    if (deltas.recoveries_per_min or 0) > limits.max_recoveries_per_min:
        yield f"{deltas.recoveries_per_min:.1f} link recoveries per minute"
    if (deltas.receive_errors_per_s or 0) > limits.max_receive_errors_per_s:
        yield f"{deltas.receive_errors_per_s:.0f} receive errors per second"
    if (deltas.integrity or 0) > limits.max_integrity:
        yield f"{deltas.integrity} link integrity errors"
    if (deltas.overruns or 0) > limits.max_integrity:
        yield f"{deltas.overruns} buffer overruns"


def could_see(finding: Finding, facts: NodeFacts) -> bool:
    """False where the counter is at its maximum or unreadable: the errors may go on."""
    for port in facts.ports or ():
        if port.subject == finding.subject and port.present:
            if finding.code == "IB_ERRORS":
                deltas = (
                    port.deltas.integrity,
                    port.deltas.overruns,
                    port.deltas.recoveries_per_min,
                )
                return None not in deltas and port.deltas.receive_errors_per_s is not None
            return port.deltas.symbol_ber is not None
    return False


def _ports(facts: NodeFacts, limits: Limits) -> Iterator[PortFacts]:
    yield from (
        port for port in facts.ports or () if port.present and port.link_layer in limits.link_layers
    )


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for port in _ports(facts, limits):
        deltas = port.deltas
        ber = "?" if deltas.symbol_ber is None else f"{deltas.symbol_ber:.0e}"
        drops = deltas.discards_per_s
        more = ", ".join(_errors(port, limits)) or "no errors"
        yield Reading(
            subject=port.subject,
            value=f"BER {ber}, {more}{f', {drops:.0f} discards/s' if drops else ''}",
            limit=f"BER <= {limits.max_ber:g}",
        )


CHECK = Check(
    name="infiniband_errors",
    probe="infiniband",
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
