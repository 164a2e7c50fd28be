"""Which processes count as slurmstepds: no title that a user can choose hides that a job is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_hooks.agent.jobs.lost_at_boot import jobs_with_step
from slurm_hooks.job.step.node_steps import steps_here
from slurm_hooks.node.slurmstepds import jobs_of_sluids, steps

SCOPE = "0::/system.slice/slurmstepd.scope"
SLUID = "s2Z1M83PR0SW00"


def process(
    procfs: Path, pid: int, title: bytes, *, uids: str = "0 0 0 0", cgroup: str = "0::/"
) -> None:
    folder = procfs / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(title)
    (folder / "status").write_text("Name:\tslurmstepd\nUid:\t" + uids.replace(" ", "\t") + "\n")
    (folder / "cgroup").write_text(cgroup + "\n")


def test_steps_are_found_by_their_slurmstepds(tmp_path: Path) -> None:
    process(tmp_path, 1, b"slurmstepd: [47.extern stepmgr]\0\0")
    process(tmp_path, 2, b"slurmstepd: [47.0]", cgroup=f"{SCOPE}/job_47/step_0/slurm")
    process(tmp_path, 3, b"slurmstepd: [470.1]", cgroup="9:freezer:/slurm/uid_2001/job_470/step_1")
    process(tmp_path, 4, b"slurmstepd: [47.3:namespace]", cgroup="0::/user.slice/user-0.slice/x")
    process(tmp_path, 5, b"python3\0slurmstepd: [47.7]\0")
    (tmp_path / "self").mkdir()
    (tmp_path / "6").mkdir()  # a process that has exited
    assert steps_here(47, tmp_path) == {"extern", "0", "3"}
    assert jobs_with_step(tmp_path) == {47, 470}


def test_a_program_that_is_not_slurmstepd_is_none_whatever_its_title(tmp_path: Path) -> None:
    """bob's crontab runs sudo: root's uids, and the cgroup of cron."""
    cron = "0::/system.slice/cron.service"
    programs = {
        7: "/usr/bin/sudo",
        8: "/usr/sbin/slurmstepd-wlm",
        9: "/opt/slurm/slurmstepd (deleted)",
    }
    for pid, program in programs.items():
        process(tmp_path, pid, b"slurmstepd: [%d.extern]" % pid, cgroup=cron)
        (tmp_path / str(pid) / "exe").symlink_to(program)
    assert sorted(steps(tmp_path)) == [(8, "extern"), (9, "extern")]


@pytest.mark.parametrize(
    ("uids", "cgroup"),
    [
        ("2002 2002 2002 2002", "0::/"),
        ("2002 0 0 0", "0::/"),
        ("0 0 0 0", f"{SCOPE}/job_8/step_0/user/task_0"),
        ("0 0 0 0", f"{SCOPE}/job_8/step_0/user/task_0/job_47"),
        ("0 0 0 0", "9:pids:/\n1:freezer:/slurm/uid_2002/job_8/step_0"),
        ("0 0 0 0", f"{SCOPE}/{SLUID}/step_0/user/task_0"),
        ("0 0 0 0", f"{SCOPE}/job_47/step_0/user/task_0"),
        ("0 0 0 0", "0::/user.slice/user-2002.slice/session-5.scope"),
        ("0 0 0 0", "0::/user.slice/user-2002.slice/user@2002.service/job_47/step_0"),
    ],
    ids=["a user's process", "a set-user-ID program", "sudo in another job", "with a cgroup below it",
         "sudo in another job, cgroup v1", "sudo in a job of 26.05", "sudo in a task",
         "sudo in a login", "sudo in a user's own cgroup"],
)  # fmt: skip
def test_a_title_that_a_user_chose_is_no_slurmstepd(tmp_path: Path, uids: str, cgroup: str) -> None:
    """bob runs it on the node that has lost alice's job 47."""
    process(tmp_path, 7, b"slurmstepd: [47.extern]", uids=uids, cgroup=cgroup)
    process(tmp_path, 8, b"slurmstepd: [9.extern]")
    assert list(steps(tmp_path)) == [(9, "extern")]
    assert steps_here(47, tmp_path) == frozenset()


def test_the_job_of_a_sluid_is_told_by_its_slurmstepd(tmp_path: Path) -> None:
    process(tmp_path, 2, b"slurmstepd: [47.0]", cgroup=f"{SCOPE}/{SLUID}/step_0/slurm")
    process(tmp_path, 3, b"slurmstepd: [48.0]", cgroup=f"{SCOPE}/job_48/step_0/slurm")
    process(tmp_path, 4, b"slurmstepd: [49.0]", cgroup=f"{SCOPE}/{SLUID[:-1]}1/step_0/user/task_0")
    assert jobs_of_sluids(tmp_path) == {SLUID: 47}
    assert steps_here(47, tmp_path) == {"0"}
