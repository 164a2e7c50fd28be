"""The environment that Slurm sets for a batch script (sbatch(1), OUTPUT ENVIRONMENT VARIABLES)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The job that this launcher runs in.

    ``restarts``    requeues so far; Slurm leaves SLURM_RESTART_COUNT unset in the first run.
    ``started_at``  when this run of the job started, epoch seconds (0: not known).
    ``nodes``       hostlist expression of the allocation, of a het job with all its components.
    ``node_count``  nodes of the component that the script runs in.
    ``gpus``        GPUs of these nodes together, if each has as many as this one; 0: not known.
    """

    job_id: int
    restarts: int
    nodes: str
    node_count: int
    host: str
    started_at: float
    gpus: int = 0

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> JobContext:
        """Raises ``UsageError`` outside of a job, and inside a step: there one launcher would run for
        each task."""
        if not environ.get("SLURM_JOB_ID"):
            raise UsageError(
                "not inside a Slurm job (SLURM_JOB_ID is not set); put this line into a batch script "
                "and submit it with: sbatch --requeue SCRIPT"
            )
        if _is_real_step(environ.get("SLURM_STEP_ID", "")):
            raise UsageError(
                "started under srun (SLURM_STEP_ID is set), so once for each task; start srun under "
                "holdfast run instead: holdfast run -- srun …"
            )
        node_count = _whole(environ, "SLURM_JOB_NUM_NODES")
        per_node = environ.get("SLURM_GPUS_ON_NODE", "")
        gpus = int(per_node) if per_node.isascii() and per_node.isdigit() else 0
        return cls(
            job_id=_whole(environ, "SLURM_JOB_ID"),
            restarts=_whole(environ, "SLURM_RESTART_COUNT"),
            nodes=_nodes(environ),
            node_count=node_count,
            host=environ.get("SLURMD_NODENAME", ""),
            started_at=float(_whole(environ, "SLURM_JOB_START_TIME")),
            gpus=gpus * node_count,
        )


def _nodes(environ: Mapping[str, str]) -> str:
    """SLURM_JOB_NODELIST of a het job holds the nodes of its first component only. The variables of
    the other components may belong to the job that this one was submitted from."""
    own = environ.get("SLURM_JOB_NODELIST", "")
    groups: list[str] = []
    if environ.get("SLURM_JOB_ID_HET_GROUP_0") == environ.get("SLURM_JOB_ID"):
        while nodes := environ.get(f"SLURM_JOB_NODELIST_HET_GROUP_{len(groups)}"):
            groups.append(nodes)
    return ",".join(groups) or own


def _is_real_step(step: str) -> bool:
    """False for the batch script's own pseudo step: unset up to 24.11, -5 on 26.05. The shell of
    salloc has an id near 2**32 (slurm.h, SLURM_BATCH_SCRIPT)."""
    return step.isascii() and step.isdigit() and int(step) < 0xFFFFFFF0


def _whole(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name) or "0"
    if not text.isascii() or not text.isdigit():
        raise UsageError(
            f"{name}={text!r} is not an integer; Slurm sets this variable, do not change it"
        )
    return int(text)
