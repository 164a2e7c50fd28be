"""The launcher reads its job from Slurm's environment and refuses to run elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import UsageError
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.resume.environment import child_environment

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


def test_a_later_run_has_a_restart_count() -> None:
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
def test_the_pseudo_step_of_the_batch_script_is_not_a_step(step: str) -> None:
    assert JobContext.of(BATCH | {"SLURM_STEP_ID": step}).job_id == 42


def test_the_child_gets_the_checkpoint_and_no_step_id(tmp_path: Path) -> None:
    chosen = Checkpoint(path=tmp_path / "step_5.pt", framework="torch", step=5, changed_at=0.0)
    environ = BATCH | {"SLURM_STEP_ID": "-5", "SLURM_STEPID": "-5", "HOLDFAST_ATTEMPT": "old"}
    child = child_environment(environ, Choice(chosen=chosen), 3, tmp_path / "j")
    assert "SLURM_STEP_ID" not in child
    assert "SLURM_STEPID" not in child
    assert child["HOLDFAST_RESUME_FROM"] == str(chosen.path)
    assert (child["HOLDFAST_RESUME_STEP"], child["HOLDFAST_ATTEMPT"]) == ("5", "3")
    assert (child["HOLDFAST_JOURNAL"], child["SLURM_KILL_BAD_EXIT"]) == (str(tmp_path / "j"), "1")


def test_a_users_kill_on_bad_exit_0_is_kept() -> None:
    environ = BATCH | {"SLURM_KILL_BAD_EXIT": "0"}
    child = child_environment(environ, Choice(chosen=None), 1, Path("j"))
    assert child["SLURM_KILL_BAD_EXIT"] == "0"


@pytest.mark.parametrize(
    ("requested", "kept"),
    [
        ("NONE", ""),
        ("nil", ""),
        ("PATH,A=1", "PATH,A=1,"),
    ],
)
def test_srun_exports_the_variables_whatever_sbatch_exports(requested: str, kept: str) -> None:
    names = "HOLDFAST_RESUME_FROM,HOLDFAST_RESUME_STEP,HOLDFAST_ATTEMPT,HOLDFAST_JOURNAL"
    environ = BATCH | {"SLURM_EXPORT_ENV": requested}
    child = child_environment(environ, Choice(chosen=None), 1, Path("j"))
    assert child["SLURM_EXPORT_ENV"] == kept + names


@pytest.mark.parametrize("requested", ["ALL", "all,A=1", ""])
def test_an_export_of_all_variables_is_not_changed(requested: str) -> None:
    environ = BATCH | {"SLURM_EXPORT_ENV": requested}
    child = child_environment(environ, Choice(chosen=None), 1, Path("j"))
    assert child["SLURM_EXPORT_ENV"] == requested
    assert "SLURM_EXPORT_ENV" not in child_environment(BATCH, Choice(chosen=None), 1, Path("j"))


def test_without_a_checkpoint_the_variables_are_empty() -> None:
    child = child_environment(BATCH, Choice(chosen=None), 1, Path("j"))
    assert (child["HOLDFAST_RESUME_FROM"], child["HOLDFAST_RESUME_STEP"]) == ("", "")


@pytest.mark.parametrize(
    ("environ", "remedy"),
    [
        ({}, "sbatch --requeue SCRIPT"),
        (BATCH | {"SLURM_STEP_ID": "0"}, "holdfast run -- srun"),
        (BATCH | {"SLURM_JOB_ID": "x"}, "SLURM_JOB_ID='x' is not an integer"),
    ],
)
def test_outside_of_a_batch_script_the_error_has_a_remedy(
    environ: dict[str, str], remedy: str
) -> None:
    with pytest.raises(UsageError, match=remedy.replace("(", r"\(")):
        JobContext.of(environ)
