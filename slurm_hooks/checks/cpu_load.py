"""The load of the machine: far more work than processors, for long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import HostFacts, NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_per_cpu``: mean of 15 minutes, by processor. NHC's generated limit is 2; twice that
    leaves room for jobs that start more threads than they should.
    """

    max_per_cpu: float = 4.0
    open_after: int = 3
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, max_per_cpu=(0.1, 1e6))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    load = _per_cpu(facts.host)
    if load is not None and load > limits.max_per_cpu:
        yield finding(
            "LOAD_HIGH", subject="node", detail=f"load of 15 minutes is {load:.1f} by processor"
        )


def _per_cpu(host: HostFacts | None) -> float | None:
    if host is None or host.load is None or not host.cpus:
        return None
    return host.load[2] / host.cpus


def could_see(finding: Finding, facts: NodeFacts) -> bool:  # noqa: ARG001 - as every check
    return _per_cpu(facts.host) is not None


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    load = _per_cpu(facts.host)
    if load is not None:
        yield Reading(
            subject="node", value=f"{load:.1f} by processor", limit=f"<= {limits.max_per_cpu:g}"
        )


CHECK = Check(
    name="cpu_load",
    probe="host",
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
