"""Paths as slurmstepd made them: 24.11.5 with version 1 and 2, and 26.05.5 with version 2."""

from __future__ import annotations

import pytest

from slurm_hooks.node.step_cgroup import StepCgroup, each, find

SCOPE = "/system.slice/worker-0_slurmstepd.scope"
SLUID = "s2Z1M83PR0SW00"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            f"0::{SCOPE}/{SLUID}/step_0/user/task_special\n",
            StepCgroup(path=f"0::{SCOPE}/{SLUID}/step_0", sluid=SLUID, step="0", of_task=True),
        ),
        (
            f"0::{SCOPE}/{SLUID}/step_extern/slurm\n",
            StepCgroup(path=f"0::{SCOPE}/{SLUID}/step_extern", sluid=SLUID, step="extern"),
        ),
        (
            f"{SCOPE}/job_7/step_3/user/task_0",
            StepCgroup(path=f"{SCOPE}/job_7/step_3", job=7, step="3", of_task=True),
        ),
        (
            "9:pids:/\n4:memory:/slurm/uid_2001/job_7/step_0\n0::/\n",
            StepCgroup(path="4:memory:/slurm/uid_2001/job_7/step_0", job=7, step="0"),
        ),
        ("0::/slurm/uid_2001/job_7\n", StepCgroup(path="0::/slurm/uid_2001/job_7", job=7)),
    ],
)
def test_a_step_is_named_by_its_job_or_its_sluid(text: str, found: StepCgroup) -> None:
    assert find(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "0::/user.slice/job_x\n",
        "0::/myjob_7/step_1\n",
        f"0::/{SLUID}\n",
        f"0::/{SLUID}/service\n",
        f"0::/{SLUID[:-1]}/step_0\n",
        f"0::/{SLUID[:-1]}U/step_0\n",
        f"0::/x{SLUID}/step_0\n",
    ],
)
def test_what_only_resembles_one_is_none(text: str) -> None:
    assert find(text) is None


def test_the_outer_one_counts_first() -> None:
    inner = f"0::{SCOPE}/{SLUID}/step_0/user/task_0/job_9/step_1"
    assert [(one.job, one.sluid) for one in each(inner)] == [(None, SLUID), (9, "")]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", ["/a", "/job_1x", f"/{SLUID}", "/step_0"])
def test_no_path_of_a_user_takes_long(part: str) -> None:
    assert find("0::" + part * ((1 << 18) // len(part))) is None
