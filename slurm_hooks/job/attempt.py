"""The values that one run of the launcher works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.adapters.slurm import Slurm
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.config import JobConfig
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.step import Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the batch script asked for."""

    context: JobContext
    command: tuple[str, ...]
    checkpoints: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the launcher works with."""

    slurm: Slurm
    journal: Journal
    config: JobConfig
    run_dir: Path
    signals: Signals


_STEP = frozenset({"SLURM_STEP_ID", "SLURM_STEPID"})


def child_environment(
    environ: Mapping[str, str], choice: Choice, number: int, journal: Path
) -> dict[str, str]:
    """The job environment (design.md section 4) on top of the launcher's own.

    Empty rather than unset where there is no checkpoint: a script under ``set -u`` may use them.
    """
    chosen = choice.chosen
    # 26.05 gives batch scripts a step id (-5). Agents tell a job's tasks by it: srun must have
    # none.
    own = {name: value for name, value in environ.items() if name not in _STEP}
    return {
        **own,
        "HOLDFAST_RESUME_FROM": str(chosen.path) if chosen else "",
        "HOLDFAST_RESUME_STEP": str(chosen.step) if chosen and chosen.step is not None else "",
        "HOLDFAST_ATTEMPT": str(number),
        "HOLDFAST_JOURNAL": str(journal),
        "SLURM_KILL_BAD_EXIT": "1",
    }
