"""What is kept of the environments of tasks that are killed."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_hooks.agent.kill_tasks import affected_tasks, recorders
from slurm_hooks.agent.kill_tasks.affected_tasks import TasksToKill, open_kill
from slurm_hooks.agent.kill_tasks.recorders import PIPE, Recorders

_HANDLES = "import signal, time; signal.signal(signal.SIGABRT, print); print(1, flush=True); time.sleep(60)"


@pytest.fixture
def procfs(tmp_path: Path) -> Path:
    for pid in range(300):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "status").write_text(f"Name:\tx\nUid:\t{1000 + pid // 100}\t0\t0\t0\n")
    return tmp_path


def test_the_paths_of_recorders_alone_are_kept(procfs: Path) -> None:
    found = Recorders(procfs)
    paths = {PIPE: "/p", "TORCH_FR_DUMP_TEMP_FILE": "/d"}
    found.add(7, {"SLURM_PROCID": "3", "SECRET": "x" * 9999, **paths})
    found.add(8, {"LOCAL_RANK": "0", "RANK": "9", PIPE: "/p"})
    found.add(9, {"SLURM_PROCID": "4"})
    found.add(10, {"SLURM_PROCID": "not a number", PIPE: "/p"})
    found.add(11, {"SLURM_PROCID": "5", PIPE: "/" * (recorders.LONGEST + 1)})
    ((uid, kept),) = found.by_user()
    assert uid == 1000
    assert [(one.pid, one.rank, one.env) for one in kept] == [(7, 3, paths), (8, 9, {PIPE: "/p"})]


def test_no_user_makes_it_large(procfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorders, "MOST_USERS", 2)
    found = Recorders(procfs)
    for pid in range(300):
        found.add(pid, {"SLURM_PROCID": str(pid), PIPE: "/p"})
    kept = {uid: len(ranks) for uid, ranks in found.by_user()}
    assert kept == {1000: recorders.MOST_RANKS, 1001: recorders.MOST_RANKS}


@pytest.fixture
def task(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A task that handles SIGABRT, with a large environment."""
    env = {"HOLDFAST_ATTEMPT": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7", "BIG": "b" * 90_000}
    child = subprocess.Popen([sys.executable, "-c", _HANDLES], env=env, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"1\n"
    (tmp_path / str(child.pid)).symlink_to(f"/proc/{child.pid}")
    yield child
    child.kill()
    child.communicate()


def test_a_task_that_waits_for_its_end_does_not_keep_its_environment(
    task: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bytes] = []

    def look(_procfs: Path, tasks: object, found: Recorders) -> list[object]:
        kept.append(pickle.dumps((tasks, list(found.by_user()))))
        return []

    monkeypatch.setattr(affected_tasks, "_have_printed", look)
    assert [ended.pid for ended in open_kill(tmp_path)(TasksToKill())] == [task.pid]
    assert task.wait(10) == -signal.SIGKILL
    assert b"affected_tasks" in kept[0]
    assert len(kept[0]) < 1000
