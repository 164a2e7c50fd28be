"""Services that a GPU node requires: Fabric Manager, nvidia-persistenced and DCGM.

A service counts as stopped only if it would be visible while it runs. In a container that does not
see the host's processes, nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import NodeFacts, ServiceFacts

_CODES = {"fabricmanager": "FABRIC_MANAGER_DOWN"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``required``: services that must run where they can be seen: fabricmanager, persistenced,
    dcgm. Others are judged once they ran in this boot. ``grace_s``: time after boot in which no
    service is judged (NVSentinel: 300 s).
    """

    required: frozenset[str] = frozenset()
    grace_s: float = 300.0
    open_after: int = 2
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, grace_s=(0, 86400))
        known = {"fabricmanager", "persistenced", "dcgm"}
        if self.required - known:
            raise ValueError(
                f"required must be any of {', '.join(sorted(known))}, "
                f"got {', '.join(sorted(self.required - known))}"
            )


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    if facts.system is None or facts.system.uptime_s < limits.grace_s:
        return
    for service in facts.system.services:
        if service.running is False and (service.ran or service.name in limits.required):
            yield finding(
                _CODES.get(service.name, "SERVICE_DOWN"),
                subject=service.name,
                detail=f"{service.name} is not running: {service.how}",
            )


def could_see(finding: Finding, facts: NodeFacts) -> bool:
    return any(
        service.name == finding.subject and service.running is not None
        for service in _services(facts)
    )


def _services(facts: NodeFacts) -> tuple[ServiceFacts, ...]:
    return facts.system.services if facts.system else ()


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    words = {True: "running", False: "not running", None: "not visible"}
    for service in _services(facts):
        judged = service.ran or service.name in limits.required
        yield Reading(
            subject=service.name,
            value=f"{words[service.running]} ({service.how})",
            limit="running" if judged else "-",
            seen=service.running is not None,
            expected=service.name in limits.required,
        )


CHECK = Check(
    name="services",
    probe="system",
    limits=Limits,
    judge=judge,
    show=show,
    could_see=could_see,
)
