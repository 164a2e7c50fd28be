"""The launcher knows its job from Slurm's environment, and says what to do where there is none."""

from __future__ import annotations

import pytest

from holdfast.errors import UsageError
from slurm_hooks.job.environment import JobContext

BATCH = {
    "SLURM_JOB_ID": "42",
    "SLURM_JOB_NODELIST": "worker-[0-1]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_START_TIME": "1795229479",
    "SLURMD_NODENAME": "worker-0",
}


def test_the_first_run_has_no_restart_count() -> None:
    context = JobContext.of(BATCH)
    assert (context.job_id, context.restarts, context.node_count) == (42, 0, 2)
    assert (context.nodes, context.host) == ("worker-[0-1]", "worker-0")
    assert context.started_at == 1795229479.0


def test_a_later_run_has_one() -> None:
    assert JobContext.of(BATCH | {"SLURM_RESTART_COUNT": "3"}).restarts == 3


@pytest.mark.parametrize(
    ("environ", "remedy"),
    [
        ({}, "sbatch --requeue SCRIPT"),
        (BATCH | {"SLURM_STEP_ID": "0"}, "holdfast run -- srun"),
        (BATCH | {"SLURM_JOB_ID": "x"}, "SLURM_JOB_ID='x' is not a whole number"),
    ],
)
def test_elsewhere_it_says_what_to_do(environ: dict[str, str], remedy: str) -> None:
    with pytest.raises(UsageError, match=remedy.replace("(", r"\(")):
        JobContext.of(environ)
