"""The values that one run of the launcher works with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.slurm.client import SlurmClient
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.config import JobConfig
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.step.step import KILL_ON_BAD_EXIT, Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the batch script asked for."""

    context: JobContext
    command: tuple[str, ...]
    checkpoints: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the launcher works with."""

    slurm: SlurmClient
    journal: Journal
    config: JobConfig
    run_dir: Path
    signals: Signals


_STEP = frozenset({"SLURM_STEP_ID", "SLURM_STEPID"})
_EXPORT = "SLURM_EXPORT_ENV"


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
    told = {
        "HOLDFAST_RESUME_FROM": str(chosen.path) if chosen else "",
        "HOLDFAST_RESUME_STEP": str(chosen.step) if chosen and chosen.step is not None else "",
        "HOLDFAST_ATTEMPT": str(number),
        "HOLDFAST_JOURNAL": str(journal),
    }
    if _EXPORT in own:
        own[_EXPORT] = _exporting(own[_EXPORT], told)
    return {KILL_ON_BAD_EXIT: "1", **own, **told}


def _exporting(asked: str, names: Iterable[str]) -> str:
    """What ``sbatch --export=NONE`` (or a list) lets srun hand to the tasks, and ``names`` besides.

    Without them a training would begin anew each time, and the agent not know its tasks. To srun a
    list is what NONE is, and the names in it.
    """
    if not asked or "ALL" in asked.upper().split(","):
        return asked
    kept = [] if asked.upper() in ("NONE", "NIL") else [asked]
    return ",".join([*kept, *names])
