"""Which job a process belongs to, and that a signal reaches only the intended process."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_hooks.agent.job_runs.processes import (
    End,
    JobProcess,
    Scan,
    end,
    open_processes,
    read_process,
    scan,
)

USER = 65534 if os.geteuid() == 0 else os.getuid()
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[subprocess.Popen[bytes]] = []

    def begin(command: str = "sleep 60", user: int = USER, **env: str) -> subprocess.Popen[bytes]:
        full = {"PATH": os.environ["PATH"], **env}
        argv = ["/bin/sh", "-c", f"exec {command}"]
        child = subprocess.Popen(argv, env=full, user=user, group=user, extra_groups=[])
        children.append(child)
        until = time.monotonic() + 10
        while (
            not Path(f"/proc/{child.pid}/cmdline")
            .read_bytes()
            .startswith(command.split()[0].encode())
        ):
            assert time.monotonic() < until
            time.sleep(0.005)
        return child

    yield begin
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait()


PROC = Path("/proc")


def of_job(child: subprocess.Popen[bytes]) -> JobProcess:
    found = read_process(child.pid, PROC)
    assert found is not None
    return found


def test_the_environment_names_job_step_and_run(start: Start) -> None:
    child = start(
        SLURM_JOB_ID="7", SLURM_STEP_ID="3", SLURM_RESTART_COUNT="2", SLURM_STEP_GPUS="0,1"
    )
    one = of_job(child)
    assert (one.job, one.step, one.restarts, one.uid, one.by_cgroup) == (7, "3", 2, USER, False)
    assert one.command == "sleep 60"
    assert one.uses(1, None) is True
    assert one.uses(5, None) is False
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    assert 0 <= uptime_s - one.start_s < 15


def test_the_first_run_has_no_restart_count(start: Start) -> None:
    assert of_job(start(SLURM_JOB_ID="7")).restarts == 0


def test_a_batch_script_has_no_step(start: Start) -> None:
    """26.05 gives it -5, and salloc's shell one from the top of 32 bits."""
    assert of_job(start(SLURM_JOB_ID="7", SLURM_STEP_ID="4294967291")).step == ""
    assert of_job(start(SLURM_JOB_ID="7", SLURM_STEP_ID="-5")).step == ""


@pytest.mark.parametrize("job", ["", "x", "7x", "-7"])
def test_a_process_of_no_job_is_ignored(start: Start, job: str) -> None:
    assert read_process(start(SLURM_JOB_ID=job).pid, PROC) is None
    assert read_process(start().pid, PROC) is None


def test_a_pid_that_no_longer_exists_is_ignored(start: Start) -> None:
    child = start(SLURM_JOB_ID="7")
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert read_process(child.pid, PROC) is None  # a zombie
    child.wait()
    assert read_process(child.pid, PROC) is None


def fake_proc(
    folder: Path, pid: int, *, cgroup: str = "", environ: str = "", uid: int = 2001
) -> Path:
    where = folder / str(pid)
    where.mkdir(parents=True)
    (where / "stat").write_text(f"{pid} (a b) S " + "0 " * 18 + "12345 " + "0 " * 20)
    (where / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (where / "cgroup").write_text(cgroup)
    (where / "environ").write_text(environ)
    (where / "cmdline").write_text("python\0train.py\0")
    return folder


@pytest.mark.parametrize(
    ("cgroup", "job", "step"),
    [
        ("0::/system.slice/slurmstepd.scope/job_7/step_3/user/task_0\n", 7, "3"),
        ("0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_special\n", 7, ""),
        ("4:memory:/slurm/uid_2001/job_7/step_0\n1:cpuset:/\n", 7, "0"),
        ("0::/kubepods/pod1/system.slice/slurmstepd.scope/job_7/step_extern/user\n", 7, ""),
    ],
)
def test_the_cgroup_is_used_before_the_environment(
    tmp_path: Path, cgroup: str, job: int, step: str
) -> None:
    proc = fake_proc(tmp_path, 50, cgroup=cgroup, environ="SLURM_JOB_ID=99\0SLURM_STEP_ID=9\0")
    found = read_process(50, proc)
    assert found is not None
    assert (found.job, found.step, found.by_cgroup, found.uid) == (job, step, True, 2001)


def test_the_job_of_a_sluid_stays_known_when_its_slurmstepds_have_ended(tmp_path: Path) -> None:
    """Cgroups of version 2 on Slurm 26.05 name no job; what is left of it must not be called another one's."""
    scope = "0::/system.slice/slurmstepd.scope/s2Z1M83PR0SW00/step_3"
    proc = fake_proc(tmp_path, 50, cgroup=f"{scope}/user/task_0\n", environ="SLURM_JOB_ID=99\0")
    answer = open_processes(proc)
    (unknown,) = answer(Scan())
    assert (unknown.job, unknown.step, unknown.by_cgroup) == (99, "3", False)
    fake_proc(tmp_path, 40, cgroup=f"{scope}/slurm\n", uid=0)
    (tmp_path / "40/cmdline").write_text("slurmstepd: [7.3]\0")
    for stays in (True, False):
        found = {one.pid: one for one in answer(Scan())}
        assert (found[50].job, found[50].step, found[50].by_cgroup) == (7, "3", True)
        if stays:
            shutil.rmtree(tmp_path / "40")


@pytest.mark.parametrize("cgroup", ["0::/user.slice/job_x\n", "0::/myjob_7/step_1\n", "0::/job_\n"])
def test_a_cgroup_that_only_resembles_a_jobs_is_ignored(tmp_path: Path, cgroup: str) -> None:
    assert read_process(50, fake_proc(tmp_path, 50, cgroup=cgroup)) is None


def test_garbage_in_proc_is_handled(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path, 50, environ="SLURM_JOB_ID=7\0=\0\0SLURM_STEP_ID\0")
    (tmp_path / "51").mkdir()
    fake_proc(tmp_path, 52, environ="SLURM_JOB_ID=7\0SLURM_RESTART_COUNT=many\0")
    (fake_proc(tmp_path, 53, environ="SLURM_JOB_ID=7\0") / "53/status").write_text("Uid:\n")
    (tmp_path / "self").mkdir()
    found = {one.pid: one for one in scan(proc)}
    assert set(found) == {50, 52}
    assert (found[50].restarts, found[52].restarts) == (0, None)


@pytest.mark.parametrize("number", ["\u00b2", "9" * 5000])
def test_no_environment_can_stop_the_scan(tmp_path: Path, number: str) -> None:
    named = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "CUDA_VISIBLE_DEVICES")
    for pid, name in enumerate(named, start=50):
        environ = {"SLURM_JOB_ID": "7", name: number}
        fake_proc(tmp_path, pid, environ="".join(f"{k}={v}\0" for k, v in environ.items()))
    found = {one.pid: one for one in scan(tmp_path)}
    assert set(found) == {51, 52, 53}
    assert (found[51].step, found[52].restarts, found[53].uses(5, None)) == ("", None, True)


def test_a_list_of_gpus_that_is_too_long_is_not_kept(tmp_path: Path) -> None:
    """The agent's memory is limited, and a user may have thousands of such processes."""
    lists = f"SLURM_STEP_GPUS=0,1\0CUDA_VISIBLE_DEVICES={'0,' * 100_000}\0"
    found = read_process(50, fake_proc(tmp_path, 50, environ=f"SLURM_JOB_ID=7\0{lists}"))
    assert found is not None
    assert found.env == {"SLURM_STEP_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "?"}
    (found,) = scan(fake_proc(tmp_path / "more", 51, environ=f"SLURM_JOB_ID=7\0{lists[20:]}"))
    assert found.uses(3, None), "unknown counts as affected"


def test_a_scan_finds_every_process_of_every_job(start: Start) -> None:
    one, two, none = start(SLURM_JOB_ID="7"), start(SLURM_JOB_ID="8"), start()
    found = {item.pid: item.job for item in open_processes()(Scan())}
    assert (found[one.pid], found[two.pid]) == (7, 8)
    assert none.pid not in found


def test_a_process_that_exits_is_reported_as_gone(start: Start) -> None:
    child = start(SLURM_JOB_ID="7")
    (fate,) = end(End(processes=(of_job(child),), grace_s=2), PROC)
    assert (fate.gone, child.wait(5)) == (True, -15)


def test_a_process_that_ignores_sigterm_gets_sigkill(start: Start) -> None:
    child = start("sh -c 'trap : TERM; while :; do sleep 0.05; done'", SLURM_JOB_ID="7")
    time.sleep(0.2)
    (fate,) = end(End(processes=(of_job(child),), grace_s=0.3), PROC)
    assert (fate.gone, child.wait(5)) == (True, -9)


def test_a_pid_that_another_process_has_now_is_not_signalled(start: Start) -> None:
    from dataclasses import replace

    child = start(SLURM_JOB_ID="7")
    before = of_job(child)
    for other in (
        replace(before, start=before.start - 1),
        replace(before, job=8),
        replace(before, uid=1),
    ):
        tuple(end(End(processes=(other,), grace_s=0.1), PROC))
        assert child.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a process of root's")
def test_processes_of_root_are_never_killed(start: Start) -> None:
    child = start(user=0, SLURM_JOB_ID="7")
    (fate,) = end(End(processes=(of_job(child),), grace_s=0.1), PROC)
    assert not fate.gone
    assert child.poll() is None


def test_an_unknown_request_is_refused() -> None:
    with pytest.raises(TypeError, match="expected Scan or End"):
        tuple(open_processes()("all"))
