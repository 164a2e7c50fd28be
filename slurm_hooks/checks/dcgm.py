"""DCGM's background health watches, where nv-hostengine runs them. Without it nothing is known,
which does not mean healthy.

DCGM reports "Healthy" while the driver requires a reset (DCGM issue 263) and "Failure" without a
fault (DCGM issue 308). So its result is a second source beside Holdfast's own checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import DcgmIncident, NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``ignore``: systems that are not judged, by DCGM's names (``PCIe system``, ``NVLINK
    system``, ``Memory system``, ``SM system``, ``InfoROM system``, ``Thermal system``, ``Power
    system``, ``Driver``).
    """

    ignore: frozenset[str] = frozenset()
    open_after: int = 1
    clear_after: int = 1

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    if facts.dcgm is None:
        return
    for incident in facts.dcgm.incidents:
        if incident.system not in limits.ignore:
            code = "DCGM_FAILURE" if incident.health == "Failure" else "DCGM_WARNING"
            yield finding(
                code,
                subject=_subject(incident),
                detail=f"DCGM, {_subject(incident)}: {incident.health}: {incident.text}",
            )
    if facts.dcgm.overall == "Failure" and not facts.dcgm.incidents:
        yield finding("DCGM_FAILURE", subject="node", detail="DCGM: overall health is Failure")


def _subject(incident: DcgmIncident) -> str:
    return f"{incident.entity} {incident.entity_id} {incident.system}"


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001 - the type of every check
    if facts.dcgm is not None:
        yield Reading(
            subject="node",
            value=f"{facts.dcgm.overall}, {len(facts.dcgm.incidents)} incidents",
            limit="Healthy",
        )


CHECK = Check(
    name="dcgm",
    probe="dcgm",
    limits=Limits,
    judge=judge,
    show=show,
)
