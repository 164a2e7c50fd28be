"""The recovery action that the driver reports for a GPU (NVML field 230, R570 and later; code 16 on
any driver).

holdfast/policy/recovery_action.py maps the values to actions and combines several sources. The
check gpu_xid does the same for the kernel log, which reports first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from holdfast.policy.recovery_action import Evidence, RecoveryAction, Strength, fuse, of_nvml
from holdfast.vocabulary import Action
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFacts, NodeFacts

_RESET_REQUIRED = 16
"""NVML_ERROR_RESET_REQUIRED"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    open_after: int = 1
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - the type of every check
    for gpu in facts.gpus:
        demand = _demand(gpu)
        if demand is None:
            continue
        found = finding(
            "GPU_RECOVERY_ACTION",
            subject=gpu.subject,
            detail=f"{gpu.where} requires: {demand.because.source}",
            gpu=gpu.index,
        )
        yield replace(found, action=demand.action)


def _demand(gpu: GpuFacts) -> RecoveryAction | None:
    evidence = []
    if gpu.state_code == _RESET_REQUIRED:
        source = "GPU reset (NVML code 16)"
        evidence.append(Evidence(source=source, action=Action.RESET_GPU, strength=Strength.DRIVER))
    reported = of_nvml(gpu.recovery_action)
    if reported is not None:
        evidence.append(reported)
    return fuse(evidence)


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001
    for gpu in facts.gpus:
        demand = _demand(gpu)
        if demand is not None:
            yield Reading(subject=gpu.subject, value=demand.because.source, limit="none")
        elif gpu.recovery_action is not None:
            yield Reading(subject=gpu.subject, value="none", limit="none")


CHECK = Check(
    name="gpu_recovery",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
