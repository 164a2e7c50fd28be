"""The processes that torch names in an out-of-memory error, and whose they are."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_hooks.job.diagnosis.causes import LogLine, diagnose
from slurm_hooks.job.outcome import gpu_processes
from slurm_hooks.job.outcome.gpu_processes import is_of_others, main, named, not_of_the_job

TORCH = (
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "
    "capacity of 79.11 GiB of which 10.00 MiB is free. Process 4711 has 60.00 GiB memory in use. Process 12 "
    "has 520.00 MiB memory in use. Process 13 has 0.98 GiB memory in use. Process 4711 has 60.00 GiB memory "
    "in use. Including non-PyTorch memory, this process has 19.00 GiB memory in use."
)

Start = Callable[[dict[str, str]], int]


@pytest.fixture
def start() -> Iterator[Start]:
    started = []

    def begin(env: dict[str, str]) -> int:
        started.append(subprocess.Popen(["sleep", "60"], env=env))
        return started[-1].pid

    yield begin
    for child in started:
        child.kill()
        child.wait()


def _named(line: str) -> tuple[int, ...]:
    return named(diagnose([LogLine(file="", number=1, text=line)]).cause)


def test_the_processes_with_gigabytes_of_the_gpus_memory_are_named() -> None:
    assert _named(TORCH) == (4711,)
    assert _named("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB") == ()
    assert _named("ValueError: Process 4711 has 60.00 GiB memory in use") == ()
    assert named(None) == ()


def test_a_process_of_the_job_is_known_by_its_environment(start: Start) -> None:
    ours, others = {"SLURM_JOB_ID": "7"}, {"SLURM_JOB_ID": "77"}
    none: dict[str, str] = {}
    pids = [start(env) for env in (ours, others, none)]
    assert [is_of_others(Path("/proc"), pid, 7) for pid in pids] == [False, True, True]


def _process(procfs: Path, pid: int, uid: int, cgroup: str) -> int:
    folder = procfs / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} (x) S " + "0 " * 18 + "1 0")
    (folder / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (folder / "cgroup").write_text(f"0::/system.slice/{cgroup}\n")
    return pid


def test_a_process_of_the_job_is_known_by_its_cgroup(tmp_path: Path) -> None:
    step, other = "slurmstepd.scope/job_7/step_0/user/task_1", os.geteuid() + 1
    assert not is_of_others(tmp_path, _process(tmp_path, 5, other, step), 7)
    assert is_of_others(tmp_path, _process(tmp_path, 6, other, step.replace("7", "71")), 7)
    assert is_of_others(tmp_path, _process(tmp_path, 8, other, "x.service"), 7)


def test_what_cannot_be_known_is_the_jobs_own(tmp_path: Path) -> None:
    unreadable = _process(tmp_path, 5, os.geteuid(), "x.service")
    assert not is_of_others(tmp_path, unreadable, 7)
    assert not is_of_others(tmp_path, 6, 7), "gone, or of a container"


def test_the_answer_of_the_node(
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours, other = start({"SLURM_JOB_ID": "7"}), start({})
    assert main(["7", str(ours), str(other)]) == 0
    line = capsys.readouterr().out
    assert line.split() == ["holdfast-not-of-the-job", str(other)]
    srun = tmp_path / "srun"
    monkeypatch.setattr(
        gpu_processes, "environment", lambda _: {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert not_of_the_job(7, "worker-1", [ours, other]) == (), "no srun here, or it fails"
    srun.write_text(
        f'#!/bin/sh\ncase "$*" in *--nodelist=worker-1*) echo "{line.strip()}";; esac\n'
    )
    srun.chmod(0o755)
    assert not_of_the_job(7, "worker-1", [ours, other]) == (other,)
