"""The leases of attempts on a node, with real processes and a real journal."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Unavailable
from holdfast.policy.job.fence import HURRY_S, LEASE_S, POLL_S, Order
from slurm_hooks.agent.fence import keeper as keepers
from slurm_hooks.agent.fence.keeper import Change, Keeper, Request
from slurm_hooks.agent.fence.tasks import Attempt, Scan, Tasks
from slurm_hooks.job.fence.newer import Run
from slurm_hooks.node.process import process_state

_JOB = 4_000_123


@dataclass
class _Job:
    state: str = "RUNNING"
    restarts: int = 0


class _Slurm:
    def __init__(self) -> None:
        self.answer: _Job | None = None
        self.asked = 0

    def job(self, _job: int) -> _Job:
        self.asked += 1
        if self.answer is None:
            raise Unavailable(["scontrol"], "no answer")
        return self.answer


class _Clock:
    """Real time, which a test moves on."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


class _World:
    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal"
        self.slurm, self.clock = _Slurm(), _Clock()
        self.started: list[subprocess.Popen[bytes]] = []
        self.keeper = self.new_keeper()
        self.stopped: frozenset[Attempt] = frozenset()
        self.again_s = 0.0

    def new_keeper(self) -> Keeper:
        return Keeper(os.getuid(), self.slurm, clock=self.clock)

    def attempt(self, number: int, restarts: int = 0) -> None:
        event = {"event": "attempt", "attempt": number, "restarts": restarts}
        with self.journal.open("a") as file:
            file.write(json.dumps({**event, "job_start": 10.0 + 40 * restarts}) + "\n")

    def task(self, number: int = 1, restarts: int = 0, script: str = "exec sleep 60") -> int:
        env = {
            "PATH": os.environ["PATH"],
            "SLURM_JOB_ID": str(_JOB),
            "HOLDFAST_ATTEMPT": str(number),
            "HOLDFAST_JOURNAL": str(self.journal),
            "SLURM_JOB_START_TIME": str(10 + 40 * restarts),
            **({"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}),
        }
        self.started.append(subprocess.Popen(["sh", "-c", script], env=env))
        pid = self.started[-1].pid
        _until(lambda: b"HOLDFAST" in Path(f"/proc/{pid}/environ").read_bytes())
        return pid

    def turn(self, *, may_act: bool = True) -> list[Order]:
        request = Request(jobs=frozenset({_JOB}), stopped=self.stopped, may_act=may_act)
        items: list[Any] = list(self.keeper.serve(request))
        self.stopped = next(item for item in items if isinstance(item, frozenset))
        self.again_s = next(item for item in items if isinstance(item, float))
        return [item.order for item in items if isinstance(item, Change)]

    def turns(self, seconds: float) -> list[Order]:
        """Turns every half a second of a clock that is moved on."""
        found: list[Order] = []
        for _ in range(int(seconds * 2)):
            self.clock.ahead_s += 0.5
            found += self.turn()
        return found


def _until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def _state(pid: int) -> str:
    found = process_state(pid)
    return found[0] if found else ""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_World]:
    monkeypatch.setattr(keepers, "_PATIENCE_S", 10.0)  # the machine may be busy
    world = _World(tmp_path)
    world.attempt(1)
    yield world
    for process in world.started:
        process.kill()
        process.wait()


def _outage(monkeypatch: pytest.MonkeyPatch, number: int = errno.EIO) -> None:
    def fail(path: str) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(keepers, "open_as_user", fail)


def test_tasks_of_a_healthy_job_are_left_alone(world: _World) -> None:
    pid = world.task()
    assert world.turn() + world.turns(20) == []
    assert _state(pid) == "S"
    assert world.again_s == POLL_S
    assert not world.slurm.asked


def test_tasks_are_killed_once_a_newer_attempt_has_begun(world: _World) -> None:
    old, new = world.task(), world.task(2, 1)
    world.turn()
    world.attempt(2, 1)
    assert world.turn() == [Order.END]
    _until(lambda: _state(old) == "Z")
    assert _state(new) == "S"


def test_a_child_that_was_started_since_is_killed_too(world: _World) -> None:
    marker = world.journal.with_name("go")
    script = f"while [ ! -e {marker} ]; do sleep 0.02; done; sleep 60 & echo $! >{marker}.pid; wait"
    world.task(script=script)
    world.turn()
    marker.touch()
    pid_file = marker.with_name("go.pid")
    _until(lambda: pid_file.exists() and bool(pid_file.read_text()))
    world.attempt(2, 1)
    world.turn()
    child = int(pid_file.read_text())

    def is_gone() -> bool:
        world.turn()
        return _state(child) in ("", "Z")

    _until(is_gone)


def test_without_journal_and_slurmctld_they_stop_and_go_on_when_the_journal_is_back(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = world.task()
    world.turn()
    with monkeypatch.context() as patch:
        _outage(patch)
        assert world.turns(LEASE_S - 1) == []
        assert world.again_s == HURRY_S
        assert world.turns(2) == [Order.STOP]
        _until(lambda: _state(pid) == "T")
        assert [attempt.number for attempt in world.stopped] == [1]
        world.slurm.answer = _Job()
        assert world.turns(3) == [], "slurmctld alone renews no lease that has run out"
        os.kill(pid, signal.SIGCONT)  # as Slurm does before it ends a step
        world.turn()
        _until(lambda: _state(pid) == "T")
    assert world.turn() == [Order.GO_ON]
    _until(lambda: _state(pid) == "S")
    assert not world.stopped


def test_what_was_stopped_is_killed_when_the_journal_shows_a_newer_attempt(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = world.task()
    world.turn()
    with monkeypatch.context() as patch:
        _outage(patch)
        world.turns(LEASE_S + 1)
    world.attempt(2, 1)
    assert world.turn() == [Order.END]
    _until(lambda: _state(pid) == "Z")


def test_tasks_whose_journal_was_removed_go_on_when_slurmctld_runs_the_job(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job whose user has removed the folder would stand still for ever."""
    pid = world.task()
    world.turn()
    world.journal.unlink()
    assert world.turns(LEASE_S + 1) == [Order.STOP]
    world.slurm.answer = _Job(restarts=1)
    assert world.turns(2) == []
    world.slurm.answer = _Job()
    assert world.turns(2) == [Order.GO_ON]
    _until(lambda: _state(pid) == "S")


def test_a_storage_that_fails_stops_nothing_while_slurmctld_runs_the_job(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = world.task()
    world.turn()
    world.slurm.answer = _Job()
    _outage(monkeypatch)
    assert world.turns(30) == []
    assert _state(pid) == "S"
    world.slurm.answer = _Job(restarts=1)
    assert world.turns(LEASE_S + 4) == [Order.STOP]


def test_a_journal_that_was_never_here_stops_nothing(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path may be that of a container."""
    pid = world.task()
    _outage(monkeypatch, errno.ENOENT)
    assert world.turns(20) == []
    assert _state(pid) == "S"


def test_a_storage_that_hangs_from_the_start_counts(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = world.task()
    _outage(monkeypatch, errno.ENOENT)
    world.turn()
    monkeypatch.setattr(keepers, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(keepers, "open_as_user", lambda _: time.sleep(3600))
    assert world.turns(LEASE_S + 3) == [Order.STOP]
    _until(lambda: _state(pid) == "T")


def test_the_next_agent_lets_tasks_go_on_that_the_last_one_stopped(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = world.task()
    world.turn()
    with monkeypatch.context() as patch:
        _outage(patch)
        world.turns(LEASE_S + 1)
    world.keeper = world.new_keeper()
    assert world.turn() == [Order.GO_ON]
    _until(lambda: _state(pid) == "S")


def test_what_was_stopped_stays_known_until_the_processes_are_read(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the first answer comes before that."""
    world.task()
    world.turn()
    with monkeypatch.context() as patch:
        _outage(patch)
        world.turns(LEASE_S + 1)
        world.keeper = world.new_keeper()
        patch.setattr(keepers, "_PATIENCE_S", 0.05)
        patch.setattr(Scan, "attempts", lambda _: time.sleep(3600))
        assert world.turn() == []
        assert [attempt.number for attempt in world.stopped] == [1]


def test_the_kill_switch_lets_stopped_tasks_go_on(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = world.task()
    world.turn()
    _outage(monkeypatch)
    world.turns(LEASE_S + 1)
    assert world.turn(may_act=False) == [Order.GO_ON]
    _until(lambda: _state(pid) == "S")


def test_tasks_of_other_jobs_are_not_touched(world: _World) -> None:
    world.task()
    world.attempt(2, 1)
    request = Request(jobs=frozenset({_JOB + 1}))
    assert not [item for item in world.keeper.serve(request) if isinstance(item, Change)]


def test_the_attempts_run_is_read_from_the_environment(world: _World) -> None:
    world.task(3, 2)
    world.attempt(3, 2)
    world.turn()
    world.attempt(4, 1)  # of a launcher that was cut off
    assert world.turn() == []
    world.attempt(4, 3)
    assert world.turn() == [Order.END]


def test_journals_that_never_answer_take_few_threads(
    world: _World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's unit has a limit of tasks, which its probes need."""
    hung, end = list[str](), threading.Event()
    monkeypatch.setattr(keepers, "_PATIENCE_S", 0.05)

    def hang(path: str) -> None:
        hung.append(path)
        end.wait()
        raise OSError(errno.EIO, "ended")

    monkeypatch.setattr(keepers, "open_as_user", hang)
    found: list[Attempt] = []
    monkeypatch.setattr(Scan, "attempts", lambda _: {one: Tasks() for one in found})
    world.keeper = Keeper(os.getuid(), world.slurm, procfs=tmp_path, clock=world.clock)
    for number in range(0, 96, 16):  # each time the processes before have ended
        found[:] = [Attempt(_JOB, "/there", number + one, Run(0, 10.0)) for one in range(16)]
        world.turns(12)
    end.set()
    assert 30 <= len(hung) <= 40


def test_a_path_that_is_too_long_is_not_kept(world: _World) -> None:
    world.journal = Path("/" + "x" * 100_000)
    world.task()
    scan = Scan(os.getuid(), {_JOB}, Path("/proc"))
    assert str(world.journal) not in {attempt.journal for attempt in scan.attempts()}
