"""NVLink fabric: every GPU is registered with Fabric Manager, and the fabric is healthy.

Without the fabric no CUDA program starts on an HGX board (error 802). Source: NVML's
nvmlDeviceGetGpuFabricInfoV. The grace of 300 s after a boot is NVSentinel's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.findings import Finding
from holdfast.vocabulary import Action
from slurm_hooks.checks import Check, Reading, limits_in_range, within
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFabric, GpuFacts, NodeFacts

_STATES = {1: "not started", 2: "in progress", 3: "completed"}
_COMPLETED = 3
_FLAGS = (
    (0, "degraded bandwidth"),
    (2, "route recovery in progress"),
    (4, "unhealthy route"),
    (6, "access timeout recovery"),
)
"""Shift of each two-bit field in the health mask: 1 true, 2 false, 0 not supported."""
_TRUE = 1
_CONFIGURATION_SHIFT, _CONFIGURATION_CORRECT = 8, (0, 1)
"""Four bits: 0 not supported, 1 no error, other values name the error."""
_SUMMARIES = {2: "unhealthy", 3: "limited capacity"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``grace_s``: how long Fabric Manager may take, from when the agent first saw the fabric
    incomplete.
    """

    grace_s: float = 300.0
    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        within(self, grace_s=(0, 86400))


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    """One finding per GPU, or one for the node if all its GPUs report the same: Fabric Manager
    serves the whole board.
    """
    joined = [gpu for gpu in facts.gpus if gpu.fabric is not None]
    if len(joined) < 2:  # a single GPU that is passed through to this machine is in no fabric
        return
    wrong = [(gpu, *_wrong(gpu, gpu.fabric, limits)) for gpu in joined if gpu.fabric is not None]
    wrong = [(gpu, what, action) for gpu, what, action in wrong if what]
    if len(wrong) == len(joined) and len({(gpu.fabric, action) for gpu, _, action in wrong}) == 1:
        _, what, action = wrong[0]
        found = finding("GPU_FABRIC", subject="node", detail=f"all GPUs: NVLink fabric {what}")
        yield replace(found, action=action)
        return
    for gpu, what, action in wrong:
        found = finding(
            "GPU_FABRIC",
            subject=gpu.subject,
            detail=f"{gpu.where}: NVLink fabric {what}",
            gpu=gpu.index,
        )
        yield replace(found, action=action)


def _wrong(gpu: GpuFacts, fabric: GpuFabric, limits: Limits) -> tuple[str, Action]:
    """("", …) for a healthy fabric. While only Fabric Manager is missing, the action is to wait."""
    if fabric.state != _COMPLETED:
        pending_s = gpu.deltas.fabric_pending_s
        if pending_s is None or pending_s < limits.grace_s:
            return "", Action.NONE
        state = _STATES.get(fabric.state, f"state {fabric.state}")
        return f"{state} for {pending_s:.0f} s", Action.WAIT
    if fabric.status:
        return f"registration failed (NVML code {fabric.status})", Action.RESET_GPU
    faults = [words for shift, words in _FLAGS if fabric.health >> shift & 3 == _TRUE]
    configuration = fabric.health >> _CONFIGURATION_SHIFT & 0xF
    if configuration not in _CONFIGURATION_CORRECT:
        faults.append(f"incorrect configuration ({configuration})")
    if not faults and fabric.summary in _SUMMARIES:
        faults.append(_SUMMARIES[fabric.summary])
    return ", ".join(faults), Action.RESET_GPU


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for gpu in facts.gpus:
        if gpu.fabric is not None:
            state = _STATES.get(gpu.fabric.state, f"state {gpu.fabric.state}")
            what, _ = _wrong(gpu, gpu.fabric, limits)
            yield Reading(
                subject=gpu.subject,
                value=what or state,
                limit=f"completed within {limits.grace_s:g} s",
            )


CHECK = Check(
    name="gpu_fabric",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
