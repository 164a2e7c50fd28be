"""The environment of the command: the variables by which it learns its checkpoint and its attempt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.resume.argument import NO_CONTAINER, PathMap
from slurm_hooks.job.step.termination import KILL_ON_BAD_EXIT

NO_MORE: Mapping[str, str] = {}
_STEP = frozenset({"SLURM_STEP_ID", "SLURM_STEPID"})
_EXPORT = "SLURM_EXPORT_ENV"


def child_environment(
    environ: Mapping[str, str],
    choice: Choice,
    number: int,
    journal: Path,
    paths: PathMap = NO_CONTAINER,
    more: Mapping[str, str] = NO_MORE,
) -> dict[str, str]:
    """The variables of ``holdfast run`` (docs/reference/commands.md) and ``more`` on top of the launcher's own.

    Without a checkpoint the variables are empty, not unset, so that scripts under ``set -u`` can use
    them.
    """
    chosen = choice.chosen
    # 26.05 gives batch scripts a step id (-5). Agents recognise a job's tasks by their step id, so
    # srun must not inherit this one.
    own = {name: value for name, value in environ.items() if name not in _STEP}
    ours = {
        "HOLDFAST_RESUME_FROM": str(paths.inside(PurePosixPath(chosen.path))) if chosen else "",
        "HOLDFAST_RESUME_STEP": str(chosen.step) if chosen and chosen.step is not None else "",
        "HOLDFAST_ATTEMPT": str(number),
        "HOLDFAST_JOURNAL": str(journal),
        **more,
    }
    if _EXPORT in own:
        own[_EXPORT] = _exporting(own[_EXPORT], ours)
    return {KILL_ON_BAD_EXIT: "1", **own, **ours}


def _exporting(requested: str, names: Iterable[str]) -> str:
    """The variables that ``sbatch --export=NONE`` (or a list) lets srun pass on, plus ``names``.

    Without ``names`` a training would start from the beginning each time, and the agent would not
    recognise its tasks. srun treats a list as NONE plus the listed names.
    """
    if not requested or "ALL" in requested.upper().split(","):
        return requested
    kept = [] if requested.upper() in ("NONE", "NIL") else [requested]
    return ",".join([*kept, *names])
