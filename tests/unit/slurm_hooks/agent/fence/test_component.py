"""The fence in the agent's loop: a worker for each user, with that user's rights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.config.schema import ClusterConfig, PathsConfig, SlurmConfig
from slurm_hooks.agent.component import NEVER
from slurm_hooks.agent.fence import component
from slurm_hooks.agent.fence.component import Fence
from slurm_hooks.agent.job_runs.runs import JobRun, Runs
from slurm_hooks.node.process import process_state
from slurm_hooks.settings.settings import Settings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

_UID, _OTHER, _JOB = 61_240, 61_241, 4_000_321


class _Node:
    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self.folder, self.journal = folder, folder / "shared" / "journal"
        self.journal.parent.mkdir()
        os.chown(self.journal.parent, _UID, _UID)
        (folder / "run").mkdir()
        run = JobRun(job=_JOB, restarts=0, started_s=1.0, uid=_UID)
        self.runs = Runs(runs={run.key: run})
        cluster = ClusterConfig(
            paths=PathsConfig(run=folder / "run"), slurm=SlurmConfig(bin=str(folder / "no-slurm"))
        )
        self.settings = Settings(path=folder / "holdfast.yaml", cluster=cluster)
        self.component = Fence(self.settings, lambda: self.runs)
        self.started: list[subprocess.Popen[bytes]] = []
        self.others = _children()

    def attempt(self, number: int, restarts: int) -> None:
        event = {"event": "attempt", "attempt": number, "restarts": restarts}
        with self.journal.open("a") as file:
            file.write(json.dumps({**event, "job_start": 10.0 + restarts}) + "\n")
        os.chown(self.journal, _UID, _UID)
        self.journal.chmod(0o600)

    def task(self, uid: int) -> int:
        env = {
            "SLURM_JOB_ID": str(_JOB),
            "SLURM_JOB_START_TIME": "10",
            "HOLDFAST_ATTEMPT": "1",
            "HOLDFAST_JOURNAL": str(self.journal),
        }
        argv = ["/bin/sleep", "60"]
        self.started.append(
            subprocess.Popen(argv, env=env, user=uid, group=uid, extra_groups=[], cwd="/")
        )
        return self.started[-1].pid

    def until(self, reached: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not reached():
            assert time.monotonic() < end
            self.component.turn(time.monotonic())
            time.sleep(0.05)


@pytest.fixture
def node() -> Iterator[_Node]:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own ones are root's alone
        made = _Node(Path(folder))
        made.attempt(1, 0)
        yield made
        made.component.close()
        for process in made.started:
            process.kill()
            process.wait()


def _workers(node: _Node) -> set[int]:
    """Also those that have exited and were not waited for."""
    return _children() - node.others - {process.pid for process in node.started}


def _children() -> set[int]:
    words = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(word) for word in words}


def _state(pid: int) -> str:
    found = process_state(pid)
    return found[0] if found else ""


def test_a_superseded_users_task_is_killed_and_nobody_elses(node: _Node) -> None:
    mine, others = node.task(_UID), node.task(_OTHER)
    node.until(lambda: bool(node.component.workers))
    node.until(lambda: not node.component.workers)
    assert _state(mine) == "S"
    node.attempt(2, 1)
    node.until(lambda: _state(mine) == "Z")
    assert _state(others) == "S", "a forged environment names no task of another user"


def test_a_storage_that_is_gone_stops_the_task_and_the_next_agent_lets_it_go_on(
    node: _Node,
) -> None:
    pid = node.task(_UID)
    node.until(lambda: bool(node.component.workers))
    node.until(lambda: not node.component.workers)
    away = node.journal.rename(node.journal.with_name("away"))
    node.until(lambda: _state(pid) == "T")
    node.until(lambda: (node.folder / "run/stopped.json").exists())
    node.component.close()
    away.rename(node.journal)
    node.component = Fence(node.settings, lambda: node.runs)
    node.until(lambda: _state(pid) == "S")


def test_a_worker_ends_with_the_last_job_of_its_user(node: _Node) -> None:
    node.task(_UID)
    node.until(lambda: bool(node.component.workers))
    assert node.component.next_at < NEVER or node.component.workers
    workers = _workers(node)
    assert len(workers) == 1
    node.runs = Runs()
    node.component.turn(time.monotonic())
    assert node.component.next_at == NEVER
    assert not node.component.workers
    node.until(lambda: not _workers(node) & workers)


def test_a_worker_that_its_user_has_stopped_ends_too(node: _Node) -> None:
    """Else each job of the user would leave one, and at last the agent could start no worker."""
    node.task(_UID)
    node.until(lambda: bool(node.component.workers))
    node.until(lambda: not node.component.workers)
    (worker,) = _workers(node)
    os.kill(worker, signal.SIGSTOP)
    runs, node.runs = node.runs, Runs()
    node.component.turn(time.monotonic())
    node.runs = runs
    node.until(lambda: worker not in _workers(node))
    node.until(lambda: bool(node.component.workers))


def test_no_program_runs_as_the_user(node: _Node) -> None:
    """The user could trace it, and run anything else in it, in the agent's cgroup."""
    slurm = node.folder / "no-slurm"
    slurm.mkdir()
    program = slurm / "scontrol"
    program.write_text(f"#!/bin/sh\nid -u >>{node.folder}/ids\nexit 1\n")
    program.chmod(0o755)
    (node.folder / "ids").touch()
    (node.folder / "ids").chmod(0o666)
    node.task(_UID)
    node.until(lambda: bool(node.component.workers))
    node.until(lambda: not node.component.workers)
    node.journal.unlink()
    node.until(lambda: bool((node.folder / "ids").read_text()))
    assert set((node.folder / "ids").read_text().split()) == {"0"}


def test_the_kill_switch(node: _Node) -> None:
    pid = node.task(_UID)
    (node.folder / "off").mkdir()
    (node.folder / "off/fence").touch()
    node.attempt(2, 1)
    node.until(lambda: bool(node.component.workers))
    node.until(lambda: not node.component.workers)
    assert _state(pid) == "S"
    (node.folder / "off/fence").unlink()
    node.until(lambda: _state(pid) == "Z")
    assert node.started[0].wait() == -signal.SIGKILL


def test_users_without_attempts_leave_their_place_to_others(
    node: _Node, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """More users with jobs than workers: a user with an attempt is fenced, in whatever order they came."""
    monkeypatch.setattr(component, "_MOST_WORKERS", 1)
    monkeypatch.setattr(component, "_TURN_S", 0.0)
    idle = [JobRun(job=_JOB + i, restarts=0, started_s=1.0, uid=_UID + i) for i in (1, 2)]
    node.runs = Runs(runs={run.key: run for run in (*idle, *node.runs.runs.values())})
    pid = node.task(_UID)
    node.attempt(2, 1)
    node.until(lambda: _state(pid) == "Z")
    said = capfd.readouterr().err
    assert "too many users" not in said, "each had its turn"
    assert said.count("uid=61241") <= 1


def test_too_many_users_with_attempts_are_reported_once(
    node: _Node, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(component, "_MOST_WORKERS", 1)
    monkeypatch.setattr(component, "_TURN_S", 0.0)
    node.task(_UID)
    node.until(lambda: bool(node.component.workers))
    node.until(lambda: not node.component.workers)
    other = JobRun(job=_JOB + 1, restarts=0, started_s=1.0, uid=_OTHER)
    node.runs = node.runs.with_run(other)
    said: list[str] = []

    def is_reported() -> bool:
        said.append(capfd.readouterr().err)
        return "users=2 most=1 waiting=1" in "".join(said)

    node.until(is_reported)
    for _ in range(3):
        node.component.turn(time.monotonic())
    said.append(capfd.readouterr().err)
    assert "".join(said).count("not fenced: too many users") == 1


def test_what_is_stopped_of_users_who_wait_for_their_turn_stays_on_record(
    node: _Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody lets their tasks go on."""
    monkeypatch.setattr(component, "_MOST_WORKERS", 1)
    other = JobRun(job=_JOB + 1, restarts=0, started_s=1.0, uid=_OTHER)
    node.runs = node.runs.with_run(other)
    theirs = [other.job, "/their/journal", 1, [0, 10.0]]
    ended = [_JOB + 2, "/ended/journal", 1, [0, 10.0]]
    record = node.folder / "run/stopped.json"
    record.write_text(json.dumps([theirs, ended]))
    node.component = Fence(node.settings, lambda: node.runs)
    node.task(_UID)
    node.until(lambda: json.loads(record.read_text()) != [theirs, ended])
    assert json.loads(record.read_text()) == [theirs]
