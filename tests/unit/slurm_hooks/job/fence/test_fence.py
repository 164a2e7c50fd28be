"""What an attempt waits for, and when a launcher gives up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.errors import Unavailable
from holdfast.policy.job import fence as policy
from holdfast.records.job_journal import path_for
from holdfast.slurm.client import SlurmClient, SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.fence.fence import Fence, Superseded
from slurm_hooks.job.fence.journal_watch import JournalWatch
from slurm_hooks.job.fence.newer import JournalReader, Run
from slurm_hooks.job.journal import Journal


@dataclass
class _Job:
    restarts: int


@dataclass
class _Slurm:
    """``states``: of n1 and n2. ``restarts``: of the job; None: slurmctld does not answer."""

    states: dict[str, NodeState] = field(default_factory=dict)
    restarts: int | None = 1

    def nodes(self, names: Sequence[SlurmName]) -> list[SlurmNode]:
        self._answer()
        found = {name: self.states.get(name, NodeState.IDLE) for name in names}
        return [SlurmNode(name=name, states=frozenset({state})) for name, state in found.items()]

    def job(self, _job: int) -> _Job:
        return _Job(self._answer())

    def _answer(self) -> int:
        if self.restarts is None:
            raise Unavailable(["scontrol"], "no answer")
        return self.restarts


def _start(restarts: int) -> float:
    return 10.0 + 40 * restarts


def _journal(folder: Path, restarts: int = 1) -> Journal:
    return Journal(path_for(folder, 7), lambda: 1.0, restarts=restarts, job_start=_start(restarts))


def _fence(folder: Path, slurm: _Slurm, restarts: int = 1) -> Fence:
    context = JobContext(
        job_id=7,
        restarts=restarts,
        nodes="n[3-4]",
        node_count=2,
        host="n3",
        started_at=_start(restarts),
    )
    return Fence(context, _journal(folder, restarts), cast(SlurmClient, slurm))


def _first(folder: Path, **end: Any) -> Journal:
    """The first run of the job, on n1 and n2. ``end``: what its step_end says; nothing: it has none."""
    journal = _journal(folder, 0)
    journal.add("attempt", attempt=1, restarts=0, job_start=10.0, nodes="n[1-2]")
    journal.add("step_start", attempt=1)
    if end:
        journal.add("step_end", attempt=1, **end)
    return journal


def _second(folder: Path, restarts: int = 1) -> None:
    facts = {"restarts": restarts, "job_start": _start(restarts), "nodes": "n[3-4]"}
    _journal(folder).add("attempt", attempt=2, **facts)


@pytest.mark.parametrize(
    ("slurm", "end", "waits_s"),
    [
        (_Slurm(), {"whole": True}, 0.0),
        (_Slurm({"n2": NodeState.DOWN}), {"whole": True}, 0.0),
        (_Slurm(), {"whole": False}, policy.SEEN_S),
        (_Slurm(), {}, policy.SEEN_S),
        (_Slurm({"n2": NodeState.DOWN}), {}, policy.WAIT_S),
        (_Slurm({"n1": NodeState.NOT_RESPONDING}), {"whole": "yes"}, policy.WAIT_S),
        (_Slurm(restarts=None), {}, policy.WAIT_S),
    ],
)
def test_an_attempt_waits_unless_the_tasks_before_it_are_known_to_have_ended(
    tmp_path: Path, slurm: _Slurm, end: dict[str, Any], waits_s: float
) -> None:
    _first(tmp_path, **end)
    _second(tmp_path)
    pauses: list[float] = []
    _fence(tmp_path, slurm).wait(2, pauses.append)
    assert pauses == ([waits_s] if waits_s else [])
    noted = [e["wait_s"] for e in _journal(tmp_path).events() if e["event"] == "fence"]
    assert noted == pauses


def test_a_first_attempt_and_one_after_attempts_that_started_nothing_do_not_wait(
    tmp_path: Path,
) -> None:
    journal = _journal(tmp_path, 0)
    journal.add("attempt", attempt=1, restarts=0, job_start=10.0, nodes="n[1-2]")
    _second(tmp_path)
    _fence(tmp_path, _Slurm({"n1": NodeState.DOWN})).wait(2, lambda _: pytest.fail("waits"))


def test_an_attempt_that_started_nothing_hides_none_before_it(tmp_path: Path) -> None:
    """It may have died while it waited itself."""
    _first(tmp_path)
    _second(tmp_path)
    facts = {"restarts": 2, "job_start": _start(2), "nodes": "n[3-4]"}
    _journal(tmp_path).add("attempt", attempt=3, **facts)
    pauses: list[float] = []
    fence = _fence(tmp_path, _Slurm({"n1": NodeState.DOWN}, restarts=2), restarts=2)
    fence.wait(3, pauses.append)
    assert pauses == [policy.WAIT_S]


def test_an_attempt_whose_requeue_slurmctld_has_forgotten_does_not_start(tmp_path: Path) -> None:
    _first(tmp_path)
    _second(tmp_path)
    with pytest.raises(Superseded, match="slurmctld runs restart 0 of this job"):
        _fence(tmp_path, _Slurm(restarts=0)).wait(2, lambda _: None)


def test_a_launcher_that_was_cut_off_gives_up(tmp_path: Path) -> None:
    _first(tmp_path)
    old = _fence(tmp_path, _Slurm(), restarts=0)
    old.check(1)
    _second(tmp_path)
    with pytest.raises(Superseded, match=r"attempt 2 of this job has begun \(restart 1\)"):
        old.check(1)
    _fence(tmp_path, _Slurm()).check(2)


def test_the_watch_says_why_within_one_look(tmp_path: Path) -> None:
    journal = _first(tmp_path)
    reader = JournalReader(lambda: journal.path.open("rb"), 1, Run(0, 10.0))
    woken: list[str] = []
    watch = JournalWatch(reader, lambda: woken.append("x"), poll_s=0.02)
    time.sleep(0.1)
    assert not woken
    _second(tmp_path)
    end = time.monotonic() + 10
    while not woken and time.monotonic() < end:
        time.sleep(0.01)
    watch.stop()
    assert watch.why == "attempt 2 of this job has begun (restart 1)"
