"""What the driver says a GPU needs (NVML field 230, R570 and later; code 16 on any driver)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from holdfast.vocabulary import Action
from slurm_hooks.checks import Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFacts, NodeFacts

NEEDS = "nvml"

_RESET_REQUIRED = 16
"""NVML_ERROR_RESET_REQUIRED"""

_IMEX = 5
"""Recover an IMEX domain: multi-node NVLink, which no H100 node has."""

ACTIONS = {
    1: ("GPU reset", Action.RESET_GPU),
    2: ("node reboot", Action.REBOOT),
    3: ("drain peer-to-peer", Action.RESET_GPU),
    4: ("drain and reset", Action.RESET_GPU),
    6: ("bus reset", Action.REBOOT),
    7: ("system reboot", Action.REBOOT),
}
"""nvmlDeviceGpuRecoveryAction_t. The list grows with drivers: a value that is not here is acted on,
as a reboot.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    open_after: int = 1
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:  # noqa: ARG001 - every check has limits
    for gpu in facts.gpus:
        asked = _asked(gpu)
        if asked is None:
            continue
        words, action = asked
        found = finding(
            "GPU_RECOVERY_ACTION",
            subject=gpu.subject,
            detail=f"{gpu.where} asks for: {words}",
            gpu=gpu.index,
        )
        yield replace(found, action=action)


def _asked(gpu: GpuFacts) -> tuple[str, Action] | None:
    if gpu.state_code == _RESET_REQUIRED:
        return "GPU reset (NVML code 16)", Action.RESET_GPU
    value = gpu.recovery_action
    if not value or value == _IMEX:  # 0: nothing; None: not supported
        return None
    return ACTIONS.get(value, (f"unknown recovery action {value}", Action.REBOOT))


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:  # noqa: ARG001
    for gpu in facts.gpus:
        asked = _asked(gpu)
        if asked is not None:
            yield Reading(subject=gpu.subject, value=asked[0], limit="none")
        elif gpu.recovery_action is not None:
            yield Reading(subject=gpu.subject, value="none", limit="none")
