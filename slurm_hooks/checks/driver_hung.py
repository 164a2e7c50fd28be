"""The driver as a whole: NVML that does not answer, or answers that it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from holdfast.vocabulary import Action
from slurm_hooks.checks import Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import Blind, NodeFacts

NEEDS = ""
"""Nothing: it judges the silence itself."""
ALSO = frozenset({"nvml"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``hung_passes``: passes in a row without an answer. One is a busy driver, and only makes the
    node blind.
    """

    hung_passes: int = 2
    open_after: int = 1
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        if self.hung_passes < 1:
            raise ValueError(f"hung_passes must be at least 1, got {self.hung_passes}")


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    if not facts.expected_gpus:
        return
    blind = _nvml_blind(facts)
    if blind is not None and blind.hung and blind.passes >= limits.hung_passes:
        yield _hung(blind)
    if facts.nvml is not None and facts.nvml.init_code is not None:
        yield finding(
            "NVML_UNAVAILABLE",
            subject="node",
            detail=f"NVML code {facts.nvml.init_code}: {facts.nvml.init_error}",
        )


def _hung(blind: Blind) -> Finding:
    """A process that SIGKILL does not end needs a reboot; a driver that lets go again needs
    time.
    """
    where = blind.evidence.partition(", stack")[0]
    found = finding(
        "DRIVER_HUNG",
        subject="node",
        detail=f"NVML did not answer {blind.passes} times: {blind.why} ({where})",
    )
    return found if blind.stuck else replace(found, action=Action.WAIT)


def _nvml_blind(facts: NodeFacts) -> Blind | None:
    return next((blind for blind in facts.blind if blind.probe == "nvml"), None)


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    blind, limit = _nvml_blind(facts), f"< {limits.hung_passes} passes silent"
    if blind is not None:
        yield Reading(
            subject="node", value=f"silent {blind.passes} passes: {blind.why}", limit=limit
        )
    elif facts.nvml is not None and facts.nvml.init_code is not None:
        yield Reading(subject="node", value=facts.nvml.init_error, limit="answers")
    elif facts.nvml is not None:
        yield Reading(subject="node", value=f"driver {facts.nvml.driver} answers", limit=limit)
