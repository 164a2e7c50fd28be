"""Which tasks are killed after a fault."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.findings import Finding
from holdfast.vocabulary import Severity
from slurm_hooks.agent.kill_tasks.affected_tasks import (
    KilledTask,
    TasksToKill,
    affected,
    open_kill,
    task_of,
)
from slurm_hooks.agent.kill_tasks.worker import tasks_to_kill
from slurm_hooks.node.process_scan import each
from slurm_hooks.worker.worker import Worker, call


@pytest.mark.parametrize(
    ("env", "hit"),
    [
        ({"SLURM_STEP_GPUS": "0,1,3"}, True),
        ({"SLURM_STEP_GPUS": "0-4"}, True),
        ({"SLURM_STEP_GPUS": "4-7"}, False),
        ({"SLURM_STEP_GPUS": "0,1", "SLURM_JOB_GPUS": "0-7"}, False),
        ({"SLURM_JOB_GPUS": "0-7", "CUDA_VISIBLE_DEVICES": "0"}, True),
        ({"CUDA_VISIBLE_DEVICES": "2"}, False),
        ({"CUDA_VISIBLE_DEVICES": "GPU-bad"}, True),
        ({"CUDA_VISIBLE_DEVICES": "GPU-good"}, False),
        ({"CUDA_VISIBLE_DEVICES": "MIG-x"}, True),
        ({}, True),
        ({"SLURM_STEP_GPUS": ""}, True),
        ({"CUDA_VISIBLE_DEVICES": "0-99999999999999"}, True),
        ({"CUDA_VISIBLE_DEVICES": "4-99999999999999"}, False),
        ({"CUDA_VISIBLE_DEVICES": "\u00b2"}, True),
        ({"CUDA_VISIBLE_DEVICES": "0-\u00b2"}, True),
        ({"CUDA_VISIBLE_DEVICES": "1" * 5000}, True),
    ],
)
def test_gpu_scope(env: dict[str, str], hit: bool) -> None:
    to_kill = TasksToKill(gpus=frozenset({3}), uuids=frozenset({"GPU-bad"}))
    assert affected(env, to_kill) is hit
    assert affected(env, TasksToKill())


def test_the_scope_of_findings() -> None:
    def finding(gpu: int | None) -> Finding:
        return Finding(code="X", severity=Severity.FATAL, subject="s", detail="d", gpu=gpu)

    assert tasks_to_kill([finding(1), finding(2)], {1: "a", 2: "b"}) == TasksToKill(
        gpus=frozenset({1, 2}), uuids=frozenset({"a", "b"})
    )
    assert tasks_to_kill([finding(1), finding(None)], {}) == TasksToKill()


def test_real_processes(tmp_path: Path) -> None:
    ours = {"HOLDFAST_ATTEMPT": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"}
    envs = [
        {**ours, "SLURM_STEP_GPUS": "987650", "SLURM_JOB_ID": "7" * 50_000},
        {**ours, "SLURM_STEP_GPUS": "987651"},
        {"SLURM_STEP_ID": "0", "SLURM_STEP_GPUS": "987650"},
        {"HOLDFAST_ATTEMPT": "1", "SLURM_STEP_GPUS": "987650"},
    ]
    children = [subprocess.Popen(["sleep", "60"], env=env) for env in envs]
    # Only these processes are visible: this machine may run jobs of others.
    for child in children:
        (tmp_path / str(child.pid)).symlink_to(f"/proc/{child.pid}")
    worker = Worker("sweep", lambda: open_kill(tmp_path), keep=False)
    try:
        time.sleep(0.1)
        answer = call(worker, TasksToKill(gpus=frozenset({987650})), deadline_s=10)
        assert answer.complete
        assert [(task.pid, task.job) for task in answer.items] == [(children[0].pid, "7" * 20)]
        assert answer.items[0].did.startswith("state S, wchan hrtimer_nanosleep"), "before its end"
        assert children[0].wait(5) == -signal.SIGKILL
        assert [child.poll() for child in children[1:]] == [None] * 3
    finally:
        for child in children:
            child.kill()
            child.wait()


OURS = {"HOLDFAST_ATTEMPT": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"}


def test_process_1_and_the_worker_itself_are_never_killed(tmp_path: Path) -> None:
    """For any environment: a container may start process 1 with a job's environment."""
    child = subprocess.Popen(["sleep", "60"], env=OURS)
    try:
        time.sleep(0.1)
        for pid in (1, os.getpid(), child.pid):
            (tmp_path / str(pid)).symlink_to(f"/proc/{child.pid}")
        assert list(each(tmp_path, lambda pid: pid)) == [child.pid]
    finally:
        child.kill()
        child.wait()


def test_a_process_that_reuses_the_pid_is_not_killed(tmp_path: Path) -> None:
    """The environment was that of a process that has exited; its pid was used again."""
    other = subprocess.Popen(["sleep", "60"])
    folder = tmp_path / str(other.pid)
    folder.mkdir()
    environ = "".join(f"{name}={value}\0" for name, value in OURS.items())
    (folder / "environ").write_text(environ)
    start = (folder / "stat", f"{other.pid} (python) S " + "0 " * 18 + "{} 0")
    start[0].write_text(start[1].format(900))
    try:
        assert task_of(tmp_path, other.pid) == (900, OURS)
        with once_opened(lambda: start[0].write_text(start[1].format(901))):
            assert list(open_kill(tmp_path)(TasksToKill())) == []
        assert other.poll() is None
        assert [ended.pid for ended in open_kill(tmp_path)(TasksToKill())] == [other.pid]
        assert other.wait(5) == -signal.SIGKILL
    finally:
        other.kill()
        other.wait()


@contextmanager
def once_opened(after: Callable[[], object]) -> Iterator[None]:
    """Between the look at the environment and the signal, ``after`` happens: as a test can say it,
    at the moment in which the descriptor is opened."""
    real = os.pidfd_open

    def opened(pid: int, flags: int = 0) -> int:
        fd = real(pid, flags)
        after()
        return fd

    os.pidfd_open = opened
    try:
        yield
    finally:
        os.pidfd_open = real


def test_a_user_whose_processes_do_not_answer_does_not_delay_other_users(tmp_path: Path) -> None:
    """Reading an environment waits for its process's memory; here for a pipe that nobody writes to."""
    child = subprocess.Popen(["sleep", "60"], env=OURS)
    try:
        time.sleep(0.1)
        (tmp_path / str(child.pid)).symlink_to(f"/proc/{child.pid}")
        for pid in (700001, 700002):
            folder = tmp_path / str(pid)
            folder.mkdir()
            (folder / "status").write_text("Name:\tx\nUid:\t4242\t0\t0\t0\n")
            (folder / "stat").write_text(f"{pid} (x) S " + "0 " * 18 + "1 0")
            os.mkfifo(folder / "environ")
        worker = Worker("sweep", lambda: open_kill(tmp_path), keep=False)
        answer = call(worker, TasksToKill(), deadline_s=10)
        assert [item.pid for item in answer.items if isinstance(item, KilledTask)] == [child.pid]
        assert "uid 4242" in answer.error
        assert child.wait(5) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()
