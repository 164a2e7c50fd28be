"""What a task leaves behind that the agent kills: Python's stacks, and a dump of torch's flight recorder."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_hooks.agent.kill_tasks.affected_tasks import KilledTask, TasksToKill, open_kill
from slurm_hooks.worker.worker import Worker, call

_SLEEP = "import sys, time\ndef stuck_here():\n    print('up', flush=True)\n    time.sleep(600)\n"
_IGNORES = "import signal\nsignal.signal(signal.SIGABRT, lambda *_: None)\n"
_RECORDER = """
import os, pickle, threading
stem, rank = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"], os.environ["SLURM_PROCID"]
os.mkfifo(stem + rank + ".pipe")
def dump():
    os.read(os.open(stem + rank + ".pipe", os.O_RDWR), 9)
    with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + rank, "wb") as out:
        pickle.dump({"entries": []}, out)
threading.Thread(target=dump, daemon=True).start()
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a task that only this test's ``tmp_path / "proc"`` shows; all end with the test."""
    started: list[subprocess.Popen[bytes]] = []
    (tmp_path / "proc").mkdir()

    def begin(code: str, **more: str) -> subprocess.Popen[bytes]:
        env = {"HOLDFAST_ATTEMPT": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"}
        env |= {"SLURM_PROCID": "3", "PYTHONFAULTHANDLER": "1", **more}
        argv = [sys.executable, "-c", code + _SLEEP + "stuck_here()"]
        child = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(child)
        (tmp_path / "proc" / str(child.pid)).symlink_to(f"/proc/{child.pid}")
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        return child

    yield begin
    for child in started:
        child.kill()
        child.communicate()


def killed(tmp_path: Path) -> list[KilledTask]:
    worker = Worker("sweep", lambda: open_kill(tmp_path / "proc"), keep=False)
    answer = call(worker, TasksToKill(), deadline_s=20)
    assert answer.complete, answer.error
    return [item for item in answer.items if isinstance(item, KilledTask)]


def test_python_prints_its_stacks_first(start: Start, tmp_path: Path) -> None:
    child = start("")
    assert [(task.pid, task.stacks) for task in killed(tmp_path)] == [(child.pid, True)]
    _, printed = child.communicate(timeout=20)
    assert b"Fatal Python error: Aborted" in printed
    assert b"stuck_here" in printed


def test_a_task_that_goes_on_after_that_is_killed_a_second_later(
    start: Start, tmp_path: Path
) -> None:
    child, began = start(_IGNORES), time.monotonic()
    assert [task.pid for task in killed(tmp_path)] == [child.pid]
    assert child.wait(20) == -signal.SIGKILL
    assert time.monotonic() - began < 15


def test_a_rank_writes_its_flight_recorder_before_it_ends(start: Start, tmp_path: Path) -> None:
    where = {
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(tmp_path / "pipe_"),
        "TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "dump_"),
    }
    child = start(_RECORDER, **where)
    assert [task.pid for task in killed(tmp_path)] == [child.pid]
    assert child.wait(20) == -signal.SIGABRT
    assert (tmp_path / "dump_3").read_bytes() == pickle.dumps({"entries": []})


def test_a_pipe_that_nobody_reads_delays_the_kill_for_seconds_only(
    start: Start, tmp_path: Path
) -> None:
    stem = tmp_path / "pipe_"
    os.mkfifo(f"{stem}3.pipe")
    child, began = start("", TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(stem)), time.monotonic()
    assert [task.pid for task in killed(tmp_path)] == [child.pid]
    assert child.wait(20) == -signal.SIGABRT
    assert time.monotonic() - began < 15
