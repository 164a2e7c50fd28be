"""Load average: many more runnable tasks than CPUs for 15 minutes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import HostFacts, NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_per_cpu``: load average of 15 minutes, per CPU. The limit that NHC generates is 2; twice
    that leaves room for jobs that start too many threads.
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
            "LOAD_HIGH", subject="node", detail=f"15-minute load average is {load:.1f} per CPU"
        )


def _per_cpu(host: HostFacts | None) -> float | None:
    if host is None or host.load is None or not host.cpus:
        return None
    return host.load[2] / host.cpus


def could_see(finding: Finding, facts: NodeFacts) -> bool:  # noqa: ARG001 - the type of every check
    return _per_cpu(facts.host) is not None


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    load = _per_cpu(facts.host)
    if load is not None:
        yield Reading(
            subject="node", value=f"{load:.1f} per CPU", limit=f"<= {limits.max_per_cpu:g}"
        )


CHECK = Check(
    name="cpu_load",
    probe="host",
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
