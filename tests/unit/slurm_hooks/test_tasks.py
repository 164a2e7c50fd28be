"""Which tasks a fault has doomed."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from holdfast.findings import Finding
from holdfast.vocabulary import Severity
from slurm_hooks.agent.sweep import doomed_by
from slurm_hooks.agent.tasks import Doomed, affected, open_sweep
from slurm_hooks.contain import Worker, call


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
    doomed = Doomed(gpus=frozenset({3}), uuids=frozenset({"GPU-bad"}))
    assert affected(env, doomed) is hit
    assert affected(env, Doomed())


def test_the_scope_of_findings() -> None:
    def finding(gpu: int | None) -> Finding:
        return Finding(code="X", severity=Severity.FATAL, subject="s", detail="d", gpu=gpu)

    assert doomed_by([finding(1), finding(2)], {1: "a", 2: "b"}) == Doomed(
        gpus=frozenset({1, 2}), uuids=frozenset({"a", "b"})
    )
    assert doomed_by([finding(1), finding(None)], {}) == Doomed()


def test_real_processes(tmp_path: Path) -> None:
    ours = {"HOLDFAST_ATTEMPT": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"}
    envs = [
        {**ours, "SLURM_STEP_GPUS": "987650"},
        {**ours, "SLURM_STEP_GPUS": "987651"},
        {"SLURM_STEP_ID": "0", "SLURM_STEP_GPUS": "987650"},
        {"HOLDFAST_ATTEMPT": "1", "SLURM_STEP_GPUS": "987650"},
    ]
    children = [subprocess.Popen(["sleep", "60"], env=env) for env in envs]
    # Only these are shown to the sweep: this machine may run others' jobs.
    for child in children:
        (tmp_path / str(child.pid)).symlink_to(f"/proc/{child.pid}")
    worker = Worker("sweep", lambda: open_sweep(tmp_path), keep=False)
    try:
        time.sleep(0.1)
        answer = call(worker, Doomed(gpus=frozenset({987650})), deadline_s=10)
        assert answer.complete
        assert [(task.pid, task.job) for task in answer.items] == [(children[0].pid, "7")]
        assert children[0].wait(5) == -signal.SIGKILL
        assert [child.poll() for child in children[1:]] == [None] * 3
    finally:
        for child in children:
            child.kill()
            child.wait()
