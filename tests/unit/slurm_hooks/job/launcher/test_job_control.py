"""What the launcher concludes from Slurm's answer to a request for its own job."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from holdfast.errors import CommandError
from holdfast.slurm.client import SlurmClient
from slurm_hooks.job import marker as markers
from slurm_hooks.job.config import JobConfig
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.launcher.attempt import Tools
from slurm_hooks.job.launcher.job_control import JobControl
from slurm_hooks.job.step.step import Signals
from tests.unit.slurm_hooks.listening import listening

CONTEXT = JobContext(
    job_id=42, restarts=0, nodes="worker-[0-1]", node_count=2, host="worker-0", started_at=1.0
)


class Answers:
    """A Slurm whose scontrol ends with ``status``; ``spared``: jobs that nobody may requeue."""

    def __init__(self, status: int) -> None:
        self._status = status
        self.spared: list[int] = []

    def disable_requeue(self, job_id: int) -> None:
        self.spared.append(job_id)

    def requeue(self, _job_id: int) -> None:
        raise CommandError(["scontrol", "requeue"], f"exit status {self._status}", "", self._status)

    def hold(self, _job_id: int, _why: str) -> None:
        self.requeue(_job_id)


def desk(run_dir: Path, slurm: Answers) -> JobControl:
    tools = Tools(
        slurm=cast("SlurmClient", slurm),
        journal=Journal(run_dir / "journal.jsonl", lambda: 0.0),
        config=JobConfig(slurm_patience_s=0),
        run_dir=run_dir,
        signals=Signals(),
    )
    return JobControl(CONTEXT, tools)


@pytest.mark.parametrize(("status", "taken"), [(-15, True), (-9, True), (1, False)])
def test_a_requeue_that_ends_its_own_scontrol_was_taken(
    status: int, taken: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slurm's SIGTERM comes to all processes of the job, and may outrun its answer (seen on 26.05)."""
    with listening(42) as agent:
        asking = desk(agent.run_dir, Answers(status))
        assert agent.while_it_runs(lambda: asking.requeue(["worker-1"])) is taken
        (marker,) = agent.kept
    assert (marker.state, marker.exclude) == (markers.REQUEUE, ("worker-1",))
    assert ("requeue not taken by Slurm" in capsys.readouterr().err) is not taken


def test_without_an_agent_slurm_knows_that_a_job_has_ended_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The agent's next start would find a launcher gone and a job failed, and requeue it."""
    monkeypatch.setattr("slurm_hooks.job.launcher.job_control._AT_END_S", 0.3)
    with listening(42) as agent:
        slurm = Answers(0)
        asking = desk(agent.run_dir, slurm)
        agent.while_it_runs(lambda: asking.mark(markers.RUNNING))
        agent.sockets.close()
        asking.mark(markers.FINISHED)
    assert [one.state for one in agent.kept] == [markers.RUNNING]
    assert slurm.spared == [42]


def test_where_no_agent_ever_was_nothing_is_asked_of_slurm(tmp_path: Path) -> None:
    slurm = Answers(0)
    asking = desk(tmp_path, slurm)
    asking.mark(markers.RUNNING)
    asking.mark(markers.FINISHED)
    assert slurm.spared == []


@pytest.mark.parametrize(("status", "taken"), [(-15, True), (1, False)])
def test_a_hold_likewise(tmp_path: Path, status: int, taken: bool) -> None:
    assert desk(tmp_path, Answers(status)).hold("the same failure 3 times") is taken
