"""Which jobs the agent requeues after its node has booted."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from holdfast.errors import Refused, Unavailable
from holdfast.slurm.cli import SlurmCli
from holdfast.slurm.client import RunningJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.component import NEVER
from slurm_hooks.agent.job_runs.runs import Runs
from slurm_hooks.agent.jobs import lost_at_boot
from slurm_hooks.agent.jobs.lost_at_boot import (
    REQUEUED,
    LostJobs,
    booted_s_ago,
    lost,
    requeue_lost,
)
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import gather

ME = SlurmName("worker-0")
BOOT = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
TICKS = os.sysconf("SC_CLK_TCK")


def job(number: int = 7, host: str = "worker-0", started_s: float = -2.0) -> RunningJob:
    return RunningJob(job_id=number, batch_host=host, start_at=BOOT + timedelta(seconds=started_s))


@pytest.mark.parametrize(
    ("running", "alive", "why"),
    [
        (job(started_s=1.0), set(), "it started after the boot"),
        (job(), {7}, "something of it has started on this boot"),
        (job(host="worker-1"), set(), "its batch script runs on another node"),
    ],
)
def test_other_jobs_are_left_alone(running: RunningJob, alive: set[int], why: str) -> None:
    assert lost([running], ME, BOOT, alive) == [], why


def test_a_job_that_started_before_the_boot_is_lost() -> None:
    running = [job(7, started_s=0.0), job(8), job(9, host="worker-1")]
    assert [one.job_id for one in lost(running, ME, BOOT, {8})] == [7]


def process(procfs: Path, pid: int, title: str, uid: int = 0, started_s: float = 100.0) -> None:
    folder = procfs / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(title.encode() + b"\0")
    (folder / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    fields = ["0"] * 18 + [str(int(started_s * TICKS))] + ["0"] * 20
    (folder / "stat").write_text(f"{pid} (a) b) S {' '.join(fields)}\n")


@pytest.mark.parametrize(
    ("init_started_s", "since_s"),
    [(0.0, 900.0), (840.0, 60.0), (5000.0, 900.0)],
    ids=["machine", "container", "a clock of another namespace"],
)
def test_a_container_is_younger_than_its_machine(
    tmp_path: Path, init_started_s: float, since_s: float
) -> None:
    (tmp_path / "uptime").write_text("900.00 1.00\n")
    process(tmp_path, 1, "init", started_s=init_started_s)
    assert booted_s_ago(tmp_path) == pytest.approx(since_s)


def test_an_unreadable_process_1_leaves_the_machines_uptime(tmp_path: Path) -> None:
    (tmp_path / "uptime").write_text("900.00 1.00\n")
    assert booted_s_ago(tmp_path) == 900.0


class FakeSlurm(SlurmCli):
    """slurmctld's clock is a whole second, rounded down."""

    def __init__(self, jobs: Sequence[RunningJob], refused: str = "", away: bool = False) -> None:
        super().__init__(1.0)
        self.jobs, self.refused, self.away = jobs, refused, away
        self.requeued: list[int] = []

    def running_jobs(self, name: SlurmName) -> list[RunningJob]:
        if self.away:
            raise Unavailable(["squeue"], "no answer")
        return list(self.jobs)

    def clock(self) -> datetime:
        return BOOT + timedelta(seconds=15)

    def requeue(self, job_id: int) -> None:
        if self.refused:
            raise Refused(["scontrol"], self.refused)
        self.requeued.append(job_id)


@pytest.fixture
def procfs(tmp_path: Path) -> Path:
    (tmp_path / "uptime").write_text("15.40 1.00\n")
    return tmp_path


def test_a_job_of_the_second_of_the_boot_is_lost_too(procfs: Path) -> None:
    """The machine booted between -0.4 s and 0.6 s."""
    slurm = FakeSlurm([job(7, started_s=0.0), job(8, started_s=1.0)])
    lines = list(requeue_lost(slurm, ME, procfs, frozenset()))
    assert slurm.requeued == [7]
    assert lines == ["7: requeued, because this node's boot ended it"]


def test_a_job_whose_prolog_ran_on_this_boot_is_kept(procfs: Path) -> None:
    slurm = FakeSlurm([job(7)])
    assert list(requeue_lost(slurm, ME, procfs, frozenset({7}))) == []
    assert slurm.requeued == []


def test_a_refusal_is_reported_and_the_next_job_is_requeued(procfs: Path) -> None:
    slurm = FakeSlurm([job(7), job(8)], refused="Job is not requeuable")
    lines = list(requeue_lost(slurm, ME, procfs, frozenset()))
    assert [line.split(":")[0] for line in lines] == ["7", "8"]
    assert all("Job is not requeuable" in line for line in lines)


def test_no_answer_is_an_error(procfs: Path) -> None:
    with pytest.raises(Unavailable):
        list(requeue_lost(FakeSlurm([], away=True), ME, procfs, frozenset()))


@pytest.mark.parametrize(
    ("said", "again"),
    [
        ([f"7: {REQUEUED}"], True),
        (["7: ended by this node's boot, and Slurm does not requeue it: no"], False),
        ([], False),
    ],
    ids=["a slurmctld that is killed now forgets the requeue", "refused", "nothing lost"],
)
def test_a_requeue_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str], again: bool
) -> None:
    monkeypatch.setattr(lost_at_boot, "booted_s_ago", lambda _: 20.0)
    monkeypatch.setattr(LostJobs, "_open", lambda _: lambda _: iter(said))
    component = LostJobs(ME, Settings(path=tmp_path / "holdfast.yaml"), Runs)
    component.turn(component.next_at)
    while component.workers:
        gather(component.workers, timeout_s=60)
        component.turn(now := time.monotonic())
    assert (now < component.next_at < now + 60) if again else component.next_at == NEVER
