"""GPU modes: persistence, ECC, MIG and compute mode. The site sets what they should be; the defaults
are those of a training node (persistence on, as gpud requires; NVIDIA's defaults for the rest).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.findings import Finding
from slurm_hooks.checks import Check, Reading, limits_in_range
from slurm_hooks.checks.finding import finding
from slurm_hooks.facts import GpuFacts, NodeFacts

_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
_PROHIBITED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``persistence``, ``ecc``, ``mig``: whether the mode should be on; None: not judged.
    ``compute_mode``: 0 default, 3 exclusive process; None: any except prohibited, in which no job
    can run.
    """

    persistence: bool | None = True
    ecc: bool | None = True
    mig: bool | None = False
    compute_mode: int | None = 0
    open_after: int = 2
    clear_after: int = 2

    def __post_init__(self) -> None:
        limits_in_range(self)
        if self.compute_mode is not None and self.compute_mode not in _COMPUTE_MODES:
            raise ValueError(f"compute_mode must be between 0 and 3, got {self.compute_mode}")


def judge(facts: NodeFacts, limits: Limits) -> Iterator[Finding]:
    for gpu in facts.gpus:
        if gpu.compute_mode == _PROHIBITED and limits.compute_mode != _PROHIBITED:
            yield finding(
                "GPU_PROHIBITED",
                subject=gpu.subject,
                detail=f"{gpu.where}: compute mode is prohibited; no program can use the GPU",
                gpu=gpu.index,
            )
        wrong = ", ".join(_wrong(gpu, limits))
        if wrong:
            yield finding(
                "GPU_MODE", subject=gpu.subject, detail=f"{gpu.where}: {wrong}", gpu=gpu.index
            )


def _wrong(gpu: GpuFacts, limits: Limits) -> Iterator[str]:
    switches = (
        ("persistence mode", gpu.persistence, None, limits.persistence),
        ("ECC", gpu.ecc_on, gpu.ecc_pending, limits.ecc),
        ("MIG", gpu.mig, gpu.mig_pending, limits.mig),
    )
    for name, now, after_reset, want in switches:
        if now is None:
            continue
        if want is not None and now != want:
            yield f"{name} is {_word(now)}"
        elif after_reset is not None and after_reset != now:
            yield f"{name} will be {_word(after_reset)} after a reset"
    mode, want_mode = gpu.compute_mode, limits.compute_mode
    if mode is not None and want_mode is not None and mode not in (want_mode, _PROHIBITED):
        yield f"compute mode is {_COMPUTE_MODES.get(mode, mode)}"


def _word(on: bool) -> str:
    return "on" if on else "off"


def show(facts: NodeFacts, limits: Limits) -> Iterator[Reading]:
    for gpu in facts.gpus:
        words = [
            f"{name} {_word(now)}"
            for name, now in (
                ("persistence", gpu.persistence),
                ("ECC", gpu.ecc_on),
                ("MIG", gpu.mig),
            )
            if now is not None
        ]
        if gpu.compute_mode is not None:
            words.append(f"compute {_COMPUTE_MODES.get(gpu.compute_mode, gpu.compute_mode)}")
        if words:
            yield Reading(subject=gpu.subject, value=", ".join(words), limit=_wanted(limits))


def _wanted(limits: Limits) -> str:
    wanted = (
        ("persistence", limits.persistence),
        ("ECC", limits.ecc),
        ("MIG", limits.mig),
    )
    words = [f"{name} {_word(want)}" for name, want in wanted if want is not None]
    mode = limits.compute_mode
    words.append(
        f"compute {_COMPUTE_MODES[mode]}" if mode is not None else "compute not prohibited"
    )
    return ", ".join(words)


CHECK = Check(
    name="gpu_modes",
    probe="nvml",
    limits=Limits,
    judge=judge,
    show=show,
)
