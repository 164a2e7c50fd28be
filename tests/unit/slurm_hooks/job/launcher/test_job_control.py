"""How the launcher handles Slurm's answer to a request for its own job."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from holdfast.errors import CommandError, Unavailable
from holdfast.policy.job.excluded_nodes import Exclusion
from holdfast.slurm.client import SlurmClient, SlurmJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.job import marker as markers
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.launcher.inputs import Tools
from slurm_hooks.job.launcher.job_control import JobControl
from slurm_hooks.job.outcome.node_faults import JobSnapshot
from slurm_hooks.job.step.run_step import StepSignals
from slurm_hooks.settings.job import JobConfig
from tests.unit.slurm_hooks.fake_agent_socket import listening

CONTEXT = JobContext(
    job_id=42, restarts=0, nodes="worker-[0-1]", node_count=2, host="worker-0", started_at=1.0
)


class Answers:
    """A Slurm whose scontrol exits with ``status``, None: it gets no answer. ``no_requeue``: jobs set to
    Requeue=0, after ``silent`` calls without an answer. ``known``: the job as Slurm knows it."""

    def __init__(self, status: int | None, known: SlurmJob | None = None) -> None:
        self._status, self.known = status, known
        self.no_requeue: list[int] = []
        self.silent = 0

    def job(self, _job_id: int) -> SlurmJob | None:
        return self.known

    def disable_requeue(self, job_id: int) -> None:
        if self.silent:
            self.silent -= 1
            raise Unavailable(["scontrol", "update"], "no end within 10 s")
        self.no_requeue.append(job_id)

    def requeue(self, _job_id: int) -> None:
        if self._status is None:
            raise Unavailable(["scontrol", "requeue"], "no end within 10 s")
        raise CommandError(["scontrol", "requeue"], f"exit status {self._status}", "", self._status)

    def hold(self, _job_id: int, _why: str) -> None:
        self.requeue(_job_id)


def job_control(
    run_dir: Path, slurm: Answers, *, patience_s: float = 0, terminated: bool = False
) -> JobControl:
    signals = StepSignals()
    signals.terminated = terminated
    tools = Tools(
        slurm=cast("SlurmClient", slurm),
        journal=Journal(run_dir / "journal.jsonl", lambda: 0.0),
        config=JobConfig(slurm_patience_s=patience_s),
        run_dir=run_dir,
        signals=signals,
    )
    return JobControl(CONTEXT, tools)


@pytest.mark.parametrize(("status", "accepted"), [(-15, True), (-9, True), (1, False)])
def test_a_requeue_whose_scontrol_is_killed_was_accepted(
    status: int, accepted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slurm sends SIGTERM to all processes of the job, possibly before its answer (seen on 26.05)."""
    with listening(42) as agent:
        control = job_control(agent.run_dir, Answers(status))
        control.exclusion = Exclusion(add=(SlurmName("worker-1"),))
        assert agent.while_it_runs(lambda: control.requeue()) is accepted
        (marker,) = agent.kept
    assert (marker.state, marker.exclude) == (markers.REQUEUE, ("worker-1",))
    assert ("Slurm refused the requeue" in capsys.readouterr().err) is not accepted


JOB = SlurmJob(
    job_id=42,
    name="t",
    user="alice",
    state="RUNNING",
    state_reason="",
    restarts=0,
    requeue=True,
)


@pytest.mark.parametrize(
    ("known", "accepted"),
    [
        (JOB, False),
        (replace(JOB, state="PENDING"), True),
        (replace(JOB, state="COMPLETING", restarts=1), True),
        (None, False),
    ],
)
def test_a_refused_requeue_of_a_job_that_is_requeued_already_was_accepted(
    tmp_path: Path, known: SlurmJob | None, accepted: bool
) -> None:
    """The answer to the first request came too late, and Slurm refuses the second one."""
    assert job_control(tmp_path, Answers(1, known)).requeue() is accepted
    assert job_control(tmp_path, Answers(1, known)).hold("the same failure 3 times") is False


def test_a_requeue_without_an_answer_is_left_to_the_agent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has the marker, and requeues the job that then fails."""
    with listening(42) as agent:
        control = job_control(agent.run_dir, Answers(None))
        assert agent.while_it_runs(lambda: control.requeue()) is True
        (marker,) = agent.kept
    assert marker.state == markers.REQUEUE
    assert "no answer" not in capsys.readouterr().err


def test_without_an_agent_a_requeue_without_an_answer_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job_control(tmp_path, Answers(None)).requeue() is False
    assert "no answer to the requeue: no end within 10 s" in capsys.readouterr().err
    assert job_control(tmp_path, Answers(None)).hold("the same failure 3 times") is False


def test_sigterm_while_slurmctld_is_slow_shows_that_it_was_accepted(tmp_path: Path) -> None:
    control = job_control(tmp_path, Answers(None), terminated=True)
    assert control.requeue() is True
    assert control.hold("the same failure 3 times") is True


def test_what_a_slurmctld_that_answers_later_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = job_control(tmp_path, Answers(0), patience_s=60)
    slept = list[float]()
    monkeypatch.setattr(control, "sleep", slept.append)
    silent = JobSnapshot(job=None, faults=None, silent=True)
    looks = iter([silent, silent, JobSnapshot(job=JOB, faults=())])
    assert control.answered(lambda: next(looks)).job is JOB
    assert len(slept) == 2
    ended = job_control(tmp_path, Answers(0), patience_s=60, terminated=True)
    assert ended.answered(lambda: silent) is silent


def test_without_an_agent_the_ended_job_is_set_to_requeue_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An agent that restarts would find the launcher gone and the job failed, and requeue the job."""
    monkeypatch.setattr("slurm_hooks.job.launcher.job_control._AT_END_S", 0.3)
    with listening(42) as agent:
        slurm = Answers(0)
        control = job_control(agent.run_dir, slurm)
        agent.while_it_runs(lambda: control.mark(markers.RUNNING))
        agent.sockets.close()
        control.mark(markers.FINISHED)
    assert [marker.state for marker in agent.kept] == [markers.RUNNING]
    assert slurm.no_requeue == [42]


def test_an_expedited_job_ends_as_failed_also_with_a_slow_slurmctld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = Answers(0)
    control = job_control(tmp_path, slurm, patience_s=60)
    monkeypatch.setattr(control, "sleep", lambda _: None)
    slurm.silent = 3
    control.end_expedited()
    assert slurm.no_requeue == [42]
    slurm.silent = 1
    job_control(tmp_path, slurm).end_expedited()
    assert slurm.no_requeue == [42]
    assert "Slurm may hold this job instead of ending it" in capsys.readouterr().err


def test_where_no_agent_ever_answered_slurm_is_not_called(tmp_path: Path) -> None:
    slurm = Answers(0)
    control = job_control(tmp_path, slurm)
    control.mark(markers.RUNNING)
    control.mark(markers.FINISHED)
    assert slurm.no_requeue == []


@pytest.mark.parametrize(("status", "accepted"), [(-15, True), (1, False)])
def test_a_hold_whose_scontrol_is_killed_was_accepted(
    tmp_path: Path, status: int, accepted: bool
) -> None:
    assert job_control(tmp_path, Answers(status)).hold("the same failure 3 times") is accepted


def test_a_launcher_that_was_cut_off_requests_nothing(tmp_path: Path) -> None:
    """Its request would reach the run of the newer attempt."""
    slurm = Answers(1)
    control = job_control(tmp_path, slurm)
    control.superseded = lambda: True
    assert control.requeue()
    control.end_expedited()
    assert not slurm.no_requeue


@pytest.mark.parametrize(
    ("nodes", "keep_nodes", "told"), [(2, True, 1), (1, True, 0), (2, False, 0)]
)
def test_the_agent_is_told_of_a_probable_requeue_of_several_nodes(
    nodes: int, keep_nodes: bool, told: int
) -> None:
    with listening(42) as agent:
        control = job_control(agent.run_dir, Answers(-15))
        control._context = replace(CONTEXT, node_count=nodes)
        config = replace(control._tools.config, keep_nodes=keep_nodes)
        control._tools = replace(control._tools, config=config)
        agent.while_it_runs(control.announce)
        assert [(one.state, one.leaving) for one in agent.kept] == [(markers.RUNNING, True)] * told


def test_a_requeue_follows_after_the_agent_could_keep_the_nodes() -> None:
    with listening(42) as agent:
        control = job_control(agent.run_dir, Answers(-15))
        config = replace(control._tools.config, keep_nodes=True)
        control._tools = replace(control._tools, config=config)
        began = time.monotonic()
        agent.while_it_runs(control.announce)
        agent.while_it_runs(control.requeue)
        assert time.monotonic() - began >= 0.2
        assert [(one.state, one.leaving) for one in agent.kept] == [
            (markers.RUNNING, True),
            (markers.REQUEUE, False),
        ]
