"""The job watcher in the agent's loop."""

from __future__ import annotations

import json
import os
import select
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_hooks.agent.job_runs.runs import JobRun, Runs
from slurm_hooks.agent.jobs.watcher import JobWatcher
from slurm_hooks.job import marker as markers
from slurm_hooks.job.agent_socket import deliver
from slurm_hooks.job.marker import Marker
from slurm_hooks.settings import settings

ME = os.geteuid()


class Node:
    """One node's run folder, and its job watcher."""

    def __init__(self, run: Path) -> None:
        self.run, self.runs = run, Runs()
        config = run / "holdfast.yaml"
        config.write_text(f"paths: {{run: {run}, state: {run}}}\nslurm: {{bin: /nowhere}}\n")
        self._config = settings.load(config)

    def agent(self) -> JobWatcher:
        return JobWatcher(self._config, lambda: self.runs)

    def starts(self, *jobs: int, ended_s: float | None = None) -> None:
        for job in jobs:
            run = JobRun(job=job, restarts=0, started_s=1.0, uid=ME, ended_s=ended_s)
            self.runs = self.runs.with_run(run)

    @property
    def marked(self) -> list[str]:
        return sorted(one.name for one in (self.run / "jobs").glob("[!.]*"))


@pytest.fixture
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is too long a name for a socket
        yield Node(Path(folder))


def test_no_user_can_fill_the_log(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """A user may send markers as fast as they are removed, and each may cause a line."""
    jobs = node.agent()
    made = [node.run / "jobs" / f"{number}.json" for number in range(200)]
    until, now = time.monotonic() + 20, 0.0
    for _ in range(2):
        for path in made:
            path.touch()
        (node.run / "ended" / "1").touch()
        while any(path.exists() for path in made) or jobs.workers:
            assert time.monotonic() < until
            jobs.turn(now)
            select.select([worker.fd for worker in jobs.workers], [], [], 0.01)
        now += 100.0
    jobs.close()
    told = capsys.readouterr().err.splitlines()
    removed = [line for line in told if "not a marker of holdfast run" in line]
    assert 2 <= len(removed) <= 120
    assert any("job log lines suppressed lines=140" in line for line in told)


def test_users_cannot_write_to_the_folders(node: Node) -> None:
    node.starts(7)
    jobs = node.agent()
    jobs.turn(0.0)
    for folder in [node.run, *(path for path in node.run.rglob("*") if path.is_dir())]:
        assert folder.stat().st_mode & 0o022 == 0, folder
    jobs.close()


def test_an_ended_run_can_send_no_markers(node: Node) -> None:
    node.starts(7)
    jobs = node.agent()
    jobs.turn(0.0)
    assert markers.socket_of(node.run, ME).is_socket()
    node.starts(7, ended_s=2.0)
    jobs.turn(0.1)
    assert not markers.socket_of(node.run, ME).exists()
    jobs.close()


def test_a_folder_writable_for_all_is_taken_over_by_root(node: Node) -> None:
    """The folder of an earlier release: its jobs are kept, everything else is removed."""
    old = node.run / "jobs"
    old.mkdir()
    old.chmod(0o1777)
    marker = {
        "job": 7,
        "restarts": 0,
        "state": "requeue",
        "at": 1.5,
        "exclude": ["n2"],
        "launchers_killed": 1,
    }
    (old / "7.json").write_text(json.dumps(marker))
    (old / "8.json").mkdir()
    os.mkfifo(old / "9.json")
    (old / "10.json").write_text(json.dumps({**marker, "job": 10}))
    node.starts(7, 8, 9)
    jobs = node.agent()
    until = time.monotonic() + 20
    jobs.turn(0.0)
    assert node.marked == ["7.json"]
    found = markers.read(old / "7.json")
    assert found == Marker(
        job=7, restarts=0, state="requeue", at=1.5, exclude=("n2",), launchers_killed=1, owner=ME
    )
    while list(node.run.glob(".jobs.old*")):
        assert time.monotonic() < until
        jobs.turn(0.0)
        time.sleep(0.01)
    jobs.close()


def test_a_received_marker_is_a_file_of_root(node: Node) -> None:
    node.starts(7)
    jobs = node.agent()
    jobs.turn(0.0)
    child = os.fork()
    if child == 0:
        os._exit(len(deliver(node.run, Marker(job=7, restarts=0, state="running", at=1.0))))
    ended = 0
    while not ended:
        jobs.turn(0.0)
        ended, status = os.waitpid(child, os.WNOHANG)
    assert status == 0
    assert node.marked == ["7.json"]
    jobs.close()
