"""Where a node keeps the sockets of its slurmstepds, and what the loop does with what a worker found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.component import NEVER
from slurm_hooks.agent.job_runs.killed_steps import KilledSteps, spool_folder
from slurm_hooks.agent.job_runs.runs import Runs
from slurm_hooks.node.step_sockets import KilledStep
from slurm_hooks.settings.settings import Settings
from tests.unit.slurm_hooks.agent.job_runs.builders import begin, finish

LOST = KilledStep(job=7, step="0")


@pytest.mark.parametrize(
    ("configured", "folder"),
    [
        ("/var/spool/slurmd", "/var/spool/slurmd"),
        ("/var/lib/slurm/d/%n", "/var/lib/slurm/d/worker-1"),
        ("/var/spool/%h", "/var/spool/machine"),
    ],
)
def test_the_folder_of_this_node(configured: str, folder: str) -> None:
    assert spool_folder(configured, "worker-1", "machine.example.org") == Path(folder)


class Node:
    """A component whose worker answers ``answer``."""

    def __init__(self, config: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs, self.told = Runs(), list[KilledStep]()
        self.answer: Callable[[dict[int, float]], Iterator[Any]] = lambda _: iter(())
        self.folder: Callable[[object], Iterator[Any]] = lambda _: iter([Path("/spool")])
        monkeypatch.setattr(
            KilledSteps, "_open_question", lambda _: lambda asked: self.folder(asked)
        )
        monkeypatch.setattr(KilledSteps, "_open", lambda _: lambda jobs: self.answer(jobs))
        self.component = KilledSteps(SlurmName("n1"), config, lambda: self.runs, self.told.append)

    def turn(self, now: float) -> None:
        self.component.turn(now)
        end = time.monotonic() + 10
        while self.component.workers and time.monotonic() < end:
            time.sleep(0.01)
            self.component.turn(now)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    made = Node(Settings(path=tmp_path), monkeypatch)
    yield made
    made.component.close()


def test_nothing_is_looked_at_without_jobs(node: Node) -> None:
    def fail(_jobs: object) -> Iterator[Any]:
        raise AssertionError

    node.answer = fail
    assert node.component.next_at == NEVER
    node.turn(10)
    node.runs = finish(begin(Runs()))
    assert node.component.next_at == NEVER
    node.turn(20)
    assert node.told == []


def test_a_killed_slurmstepd_of_a_job_here_is_reported(node: Node) -> None:
    node.runs = begin(Runs())
    node.answer = lambda jobs: iter([LOST] if jobs == {7: 100.0} else [])
    node.turn(10)
    assert node.told == [LOST]
    assert node.component.next_at == 12
    node.turn(11)
    assert node.told == [LOST]


def test_without_the_folder_nothing_is_looked_at_until_slurm_tells_it(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent(_asked: object) -> Iterator[Any]:
        raise OSError("slurmctld does not answer")

    folder, node.folder = node.folder, silent
    node.runs = begin(Runs())
    node.answer = lambda _: iter([LOST])
    node.turn(10)
    node.turn(11)
    assert (node.told, node.component.next_at) == ([], 15)
    assert "slurmctld does not answer" in capsys.readouterr().err
    node.folder = folder
    node.turn(15)
    assert node.told == [LOST]


def test_after_a_problem_it_is_tried_again_soon_then_less_often(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    healed = tmp_path / "healed"

    def fail(_jobs: object) -> Iterator[Any]:
        if not healed.exists():
            raise OSError("no such folder")
        return iter(())

    node.runs = begin(Runs())
    node.answer = fail
    for now, next_at in [(10, 15), (15, 25), (25, 55), (55, 115), (115, 415), (415, 715)]:
        node.turn(now)
        assert node.component.next_at == next_at
    assert capsys.readouterr().err.count("cannot be detected") == 1
    healed.touch()
    node.turn(715)
    healed.unlink()
    node.turn(717)
    assert node.component.next_at == 722
