"""The files of a process are read up to a limit, and signals reach only the intended process."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from slurm_hooks.agent.job_runs.processes import read_process
from slurm_hooks.node.process import MAX_ENVIRONMENT_BYTES, environment, process_state, send


def test_an_environment_is_read_up_to_a_limit(tmp_path: Path) -> None:
    with (tmp_path / "environ").open("wb") as file:
        file.truncate(1 << 40)
    assert len(environment(tmp_path)) == MAX_ENVIRONMENT_BYTES


def test_a_command_line_is_read_up_to_a_limit(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "stat").write_text("7 (x) S " + "0 " * 18 + "900 0")
    (folder / "status").write_text("Uid:\t2002\t2002\t2002\t2002\n")
    (folder / "cgroup").write_text("0::/system.slice/slurmstepd.scope/job_7/step_0\n")
    (folder / "environ").write_bytes(b"SLURM_JOB_ID=7\0")
    with (folder / "cmdline").open("wb") as file:
        file.write(b"train\0")
        file.truncate(1 << 40)
    found = read_process(7, tmp_path)
    assert found is not None
    assert (found.job, found.command) == (7, "train")


def test_a_signal_goes_only_to_the_intended_process() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert not send(child.pid, signal.SIGKILL, lambda: False)
        assert child.poll() is None
        assert send(child.pid, signal.SIGKILL, lambda: process_state(child.pid) is not None)
        assert child.wait(5) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()
    assert not send(child.pid, signal.SIGKILL, lambda: True), "it is gone"


def test_without_pidfds_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_pid: int) -> int:
        raise OSError(38, os.strerror(38))

    monkeypatch.setattr(os, "pidfd_open", missing)
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert not send(child.pid, signal.SIGKILL, lambda: False)
        assert send(child.pid, signal.SIGKILL, lambda: True)
        assert child.wait(5) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()
