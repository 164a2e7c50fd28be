"""Versions that should be the same on all GPUs of a node: model, VBIOS, InfoROM and GSP firmware.

Part numbers are not compared: a replaced board often has another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFacts, NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``driver``, ``vbios``, ``inforom``: the version that every GPU must have. Empty: any driver, and
    the VBIOS and InfoROM that most GPUs of the node have.
    """

    driver: str = ""
    vbios: str = ""
    inforom: str = ""
    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    wanted = _wanted(facts, limits)
    for gpu in facts.gpus:
        other = [
            f"{name} {has}, expected {wanted[name]}"
            for name, has in _has(gpu).items()
            if has and wanted.get(name) and has != wanted[name]
        ]
        if other:
            yield finding(
                "GPU_VERSIONS",
                subject=gpu.subject,
                detail=f"{gpu.where}: {'; '.join(other)}",
                gpu=gpu.index,
            )
    driver = facts.nvml.driver if facts.nvml else ""
    if limits.driver and driver and driver != limits.driver:
        yield finding(
            "GPU_VERSIONS",
            subject="node",
            detail=f"driver {driver}, expected {limits.driver}",
        )


def _has(gpu: GpuFacts) -> dict[str, str | None]:
    return {
        "model": gpu.name,
        "VBIOS": gpu.vbios,
        "InfoROM": gpu.inforom,
        "GSP firmware": gpu.gsp_firmware,
    }


def _wanted(facts: NodeFacts, limits: Limits) -> dict[str, str]:
    """From the configuration, else the driver's version or the value that most GPUs have."""
    driver = facts.nvml.driver if facts.nvml else ""
    found = {"VBIOS": limits.vbios, "InfoROM": limits.inforom, "GSP firmware": driver}
    for name in ("model", "VBIOS", "InfoROM"):
        seen = [has for gpu in facts.gpus if (has := _has(gpu)[name])]
        found[name] = found.get(name) or max(sorted(set(seen)), key=seen.count, default="")
    return found


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    wanted = _wanted(facts, limits)
    if facts.nvml is not None and facts.nvml.driver:
        yield Reading(
            subject="node", value=f"driver {facts.nvml.driver}", limit=limits.driver or "any"
        )
    for gpu in facts.gpus:
        has = _has(gpu)
        if any(has.values()):
            yield Reading(
                subject=gpu.subject,
                value=", ".join(f"{name} {value}" for name, value in has.items() if value),
                limit=", ".join(f"{name} {value}" for name, value in wanted.items() if value),
            )


CHECK = Check(
    name="gpu_versions",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
