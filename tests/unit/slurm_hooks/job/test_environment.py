"""The launcher knows its job from Slurm's environment, and says what to do where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import UsageError
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.launcher.attempt import child_environment

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


def test_a_het_job_has_the_nodes_of_all_its_components() -> None:
    het = {
        "SLURM_JOB_ID_HET_GROUP_0": "42",
        "SLURM_JOB_NODELIST_HET_GROUP_0": "worker-[0-1]",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "worker-7",
    }
    assert JobContext.of(BATCH | het).nodes == "worker-[0-1],worker-7"
    from_another = het | {"SLURM_JOB_ID_HET_GROUP_0": "41"}
    assert JobContext.of(BATCH | from_another).nodes == "worker-[0-1]"


@pytest.mark.parametrize("step", ["-5", "4294967291", ""])
def test_the_batch_scripts_own_pseudo_step_is_no_step(step: str) -> None:
    assert JobContext.of(BATCH | {"SLURM_STEP_ID": step}).job_id == 42


def test_the_child_is_told_what_to_resume_and_is_no_step(tmp_path: Path) -> None:
    chosen = Checkpoint(path=tmp_path / "step_5.pt", framework="torch", step=5, changed_at=0.0)
    environ = BATCH | {"SLURM_STEP_ID": "-5", "SLURM_STEPID": "-5", "HOLDFAST_ATTEMPT": "old"}
    told = child_environment(environ, Choice(chosen=chosen), 3, tmp_path / "j")
    assert "SLURM_STEP_ID" not in told
    assert "SLURM_STEPID" not in told
    assert told["HOLDFAST_RESUME_FROM"] == str(chosen.path)
    assert (told["HOLDFAST_RESUME_STEP"], told["HOLDFAST_ATTEMPT"]) == ("5", "3")
    assert (told["HOLDFAST_JOURNAL"], told["SLURM_KILL_BAD_EXIT"]) == (str(tmp_path / "j"), "1")


def test_who_asks_srun_to_go_on_after_a_death_is_heard() -> None:
    environ = BATCH | {"SLURM_KILL_BAD_EXIT": "0"}
    told = child_environment(environ, Choice(chosen=None), 1, Path("j"))
    assert told["SLURM_KILL_BAD_EXIT"] == "0"


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("NONE", ""),
        ("nil", ""),
        ("PATH,A=1", "PATH,A=1,"),
    ],
)
def test_srun_hands_the_names_on_whatever_sbatch_exports(asked: str, kept: str) -> None:
    names = "HOLDFAST_RESUME_FROM,HOLDFAST_RESUME_STEP,HOLDFAST_ATTEMPT,HOLDFAST_JOURNAL"
    environ = BATCH | {"SLURM_EXPORT_ENV": asked}
    told = child_environment(environ, Choice(chosen=None), 1, Path("j"))
    assert told["SLURM_EXPORT_ENV"] == kept + names


@pytest.mark.parametrize("asked", ["ALL", "all,A=1", ""])
def test_what_srun_hands_on_anyway_stays(asked: str) -> None:
    environ = BATCH | {"SLURM_EXPORT_ENV": asked}
    told = child_environment(environ, Choice(chosen=None), 1, Path("j"))
    assert told["SLURM_EXPORT_ENV"] == asked
    assert "SLURM_EXPORT_ENV" not in child_environment(BATCH, Choice(chosen=None), 1, Path("j"))


def test_without_a_checkpoint_the_names_are_empty() -> None:
    told = child_environment(BATCH, Choice(chosen=None), 1, Path("j"))
    assert (told["HOLDFAST_RESUME_FROM"], told["HOLDFAST_RESUME_STEP"]) == ("", "")


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
