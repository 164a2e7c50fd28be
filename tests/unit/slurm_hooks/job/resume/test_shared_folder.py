"""Two jobs that run at the same time with one checkpoint folder: the second one does not start."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import cast

import pytest

from holdfast.errors import CommandError
from holdfast.slurm.client import SlurmClient, SlurmJob
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.resume.shared_folder import is_undecided, other_job

BEGAN = 1_800_000_000.0
OURS = JobContext(
    job_id=42,
    restarts=0,
    nodes="worker-0",
    node_count=1,
    host="worker-0",
    started_at=BEGAN + 60,
)
RUNNING = SlurmJob(
    job_id=41,
    name="t",
    user="alice",
    state="RUNNING",
    state_reason="",
    restarts=0,
    requeue=True,
    start_at=datetime.fromtimestamp(BEGAN, tz=timezone.utc),
)


class Jobs:
    """A Slurm with one job; None: slurmctld does not answer."""

    def __init__(self, job: SlurmJob | None) -> None:
        self._job = job
        self.asked: list[int] = []

    def job(self, job_id: int) -> SlurmJob | None:
        self.asked.append(job_id)
        if self._job is None:
            raise CommandError(["scontrol"], "timed out")
        return self._job if job_id == self._job.job_id else None


def _journal(folder: Path, job_id: int, *events: dict[str, object]) -> Path:
    path = folder / ".holdfast" / f"job-{job_id}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return path


ATTEMPT: dict[str, object] = {"event": "attempt", "job_start": BEGAN}
STEP: dict[str, object] = {"event": "step_start"}
FINISH: dict[str, object] = {"event": "finish", "exit_code": 0}


def other(
    folder: Path,
    *events: dict[str, object],
    job: SlurmJob | None = RUNNING,
    ours: JobContext = OURS,
) -> int | None:
    own = _journal(folder, ours.job_id, ATTEMPT)
    _journal(folder, 41, *events)
    return other_job(own, ours, cast("SlurmClient", Jobs(job)))


def test_a_job_that_began_earlier_and_is_running(tmp_path: Path) -> None:
    assert other(tmp_path, ATTEMPT, STEP) == 41


@pytest.mark.parametrize(
    "job",
    [
        replace(RUNNING, state="COMPLETED"),
        replace(RUNNING, state="PENDING"),
        replace(RUNNING, start_at=datetime(2020, 1, 1, tzinfo=timezone.utc)),  # another job 41
        replace(RUNNING, job_id=40),  # 41 is not known any more
    ],
)
def test_a_job_that_is_over_or_unknown_does_not_count(tmp_path: Path, job: SlurmJob) -> None:
    assert other(tmp_path, ATTEMPT, STEP, job=job) is None


def test_a_slurmctld_that_does_not_answer_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(CommandError):
        other(tmp_path, ATTEMPT, STEP, job=None)
    assert other(tmp_path, ATTEMPT, FINISH, job=None) is None


def test_a_job_that_has_finished_hands_its_folder_to_the_next(tmp_path: Path) -> None:
    assert other(tmp_path, ATTEMPT, STEP, FINISH) is None


def test_of_two_that_start_together_one_goes_on(tmp_path: Path) -> None:
    same = replace(OURS, started_at=BEGAN)
    assert other(tmp_path, ATTEMPT, ours=same) == 41
    assert other(tmp_path, ATTEMPT, ours=replace(same, job_id=7)) is None
    assert other(tmp_path, ATTEMPT, ours=replace(OURS, started_at=BEGAN - 5)) is None


FIRST = replace(OURS, started_at=BEGAN, job_id=7)
"""It began together with job 41, and goes first if both look after both have written."""


def test_the_first_does_not_start_if_the_other_was_faster(tmp_path: Path) -> None:
    """The other one had looked before this one wrote its journal."""
    assert other(tmp_path, ATTEMPT, STEP, ours=FIRST) == 41
    assert other(tmp_path, ATTEMPT, STEP, FINISH, ours=FIRST) is None
    over = replace(RUNNING, state="FAILED")
    assert other(tmp_path, ATTEMPT, STEP, ours=FIRST, job=over) is None


@pytest.mark.parametrize(
    ("events", "undecided"),
    [
        ([ATTEMPT], True),
        ([ATTEMPT, STEP], False),
        ([ATTEMPT, FINISH], False),
        ([ATTEMPT, {"event": "requeue", "held": True}], False),
        ([ATTEMPT, STEP, {"event": "requeue"}, ATTEMPT], True),
        ([], False),
    ],
)
def test_the_first_waits_until_the_other_has_a_step_or_has_ended(
    tmp_path: Path, events: list[dict[str, object]], undecided: bool
) -> None:
    own = _journal(tmp_path, FIRST.job_id, ATTEMPT)
    _journal(tmp_path, 41, *events)
    assert is_undecided(own, FIRST) is undecided
    assert is_undecided(own, replace(FIRST, job_id=50)) is False


@pytest.mark.parametrize(
    "text", [b"", b"\0\xff{", b"[1]\n", b'{"event": "attempt"}\n', b"{" * 5000]
)
def test_garbage_in_the_folder_stops_nothing(tmp_path: Path, text: bytes) -> None:
    own = _journal(tmp_path, 42, ATTEMPT)
    own.with_name("job-41.jsonl").write_bytes(text)
    own.with_name("job-40.jsonl").mkdir()
    own.with_name("job-39.jsonl").symlink_to("/etc/passwd")
    own.with_name("job-x.jsonl").touch()
    assert other_job(own, OURS, cast("SlurmClient", Jobs(RUNNING))) is None


def test_many_jobs_of_the_past_cost_nothing(tmp_path: Path) -> None:
    for job_id in range(100, 200):
        own = _journal(tmp_path, job_id, ATTEMPT, FINISH)
    jobs = Jobs(RUNNING)
    assert other_job(own.with_name("job-42.jsonl"), OURS, cast("SlurmClient", jobs)) is None
    assert jobs.asked == []
