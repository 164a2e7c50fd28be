"""Several ``holdfast run`` in one script: after a requeue, what has finished is not run again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from holdfast.records.job_journal import Event
from slurm_hooks.job.finished_runs import finished, key_of, occurrence

NODES = ("worker-0", "worker-1")
TRAIN = ("srun", "python", "train.py")
TEST = ("srun", "python", "test.py")


@dataclass
class Script:
    """A batch script of some commands. It runs from its top until one of them is ended."""

    commands: list[tuple[str, ...]]
    restarts: int = -1
    events: list[Event] = field(default_factory=list)

    def run(self, *, ended_at: int = 99, attempts: int = 1) -> list[int]:
        """One run of the job; ``ended_at``: the command that a requeue ends. Returns what ran."""
        self.restarts += 1
        ran = []
        for place, command in enumerate(self.commands):
            key = key_of(command, NODES)
            number = occurrence(self.events, key, self.restarts)
            about = {"key": key, "run": number, "restarts": self.restarts}
            if number < finished(self.events, key, self.restarts):
                self.events.append({"event": "skipped", **about})
                continue
            ran.append(place)
            for _ in range(attempts):
                self.events.append({"event": "attempt", **about})
            if place == ended_at:
                self.events.append({"event": "requeue"})
                return ran
            self.events.append({"event": "finish", "exit_code": 0, "succeeded": True})
        return ran


def test_a_finished_command_is_not_run_again() -> None:
    script = Script([TRAIN, TEST])
    assert script.run(ended_at=1) == [0, 1]
    assert script.run(ended_at=1) == [1]
    assert script.run() == [1]
    assert script.run() == []


def test_the_same_command_three_times_is_run_three_times() -> None:
    script = Script([TRAIN, TRAIN, TRAIN])
    assert script.run(ended_at=1, attempts=2) == [0, 1]
    assert script.run(ended_at=2) == [1, 2]
    assert script.run() == [2]


def test_a_command_that_did_not_succeed_is_run_again() -> None:
    script = Script([TRAIN])
    script.run()
    script.events[-1] = {"event": "finish", "exit_code": 0, "succeeded": False}
    assert script.run() == [0]


def test_a_journal_of_an_earlier_version_runs_everything() -> None:
    script = Script([TRAIN], restarts=0)
    script.events = [{"event": "attempt", "restarts": 0}, {"event": "finish", "exit_code": 0}]
    assert script.run() == [0]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("--master=worker-0:29500", "--master=worker-1:29500", True),
        ("worker-0.cluster.local", "worker-1.cluster.local", True),
        ("tcp://10.0.0.4:29500", "tcp://10.0.31.17:29500", True),
        ("--port=29500", "--port=29501", False),
        ("worker-0/data", "other-0/data", False),
        ("a b", "ab", False),
    ],
)
def test_addresses_of_the_allocation_do_not_matter(one: str, other: str, equal: bool) -> None:
    assert (key_of([one], NODES) == key_of([other], NODES)) is equal


def test_words_are_not_joined() -> None:
    assert key_of(["a", "b"], ()) != key_of(["ab"], ())
