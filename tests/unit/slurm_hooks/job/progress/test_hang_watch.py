"""An attempt that makes no progress is ended, its evidence kept, and its suspects named."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.slurm.client import SlurmJob
from slurm_hooks.job.diagnosis.causes import Engine, diagnose
from slurm_hooks.job.diagnosis.lines.line import Diagnosis, LogLine
from slurm_hooks.job.progress import hang_watch
from slurm_hooks.job.progress.hang_watch import HangWatch
from slurm_hooks.job.progress.ranks.report import Collected, RankReport
from slurm_hooks.job.progress.silence import HangLimits
from slurm_hooks.job.step.kill_tasks import AttemptId
from slurm_hooks.job.step.run_step import StepEnd

NODES = ("worker-1", "worker-2")
JOB = SlurmJob(
    job_id=7, name="t", user="alice", state="RUNNING", state_reason="", restarts=0, requeue=True
)
FAILED = StepEnd(status=-6, started_at=0.0, ended_at=1.0)
ECC = "worker-2:1:2 [3] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'"


class Heard:
    """The output of an attempt, as the listener tells of it."""

    hears_stdout = True
    tap: Callable[[bytes], None] | None = None

    def __init__(self, printed: str = "") -> None:
        self.heard_at = time.monotonic()
        self._printed = printed

    def so_far(self) -> Diagnosis:
        engine = Engine(launcher=False)
        engine.feed("stderr", f"{self._printed}\n".encode())
        return engine.diagnosis()


def report(rank: int, place: str) -> RankReport:
    node = NODES[rank // 2]
    return RankReport(
        node=node, rank=rank, pid=90 + rank, name="python3", state="S", place=place, busy=0.0
    )


STUCK = Collected(
    ranks=(*(report(n, "futex_wait_queue") for n in range(3)), report(3, "hrtimer_nanosleep")),
    answered=frozenset(NODES),
)


class Setup:
    def __init__(self, folder: Path, limits: HangLimits, heard: Heard) -> None:
        self.folder, self.heard, self.said = folder / "c", heard, list[str]()
        self.folder.mkdir()
        self.answer: Collected | None = STUCK
        self.asked = 0
        journal = self.folder / ".holdfast" / "job-7.jsonl"
        attempt = AttemptId(job_id=7, journal=str(journal), attempt=2)
        self.watch = HangWatch(attempt, NODES, self.folder, limits, self.said.append, self.collect)
        self.watch.listen(heard)  # type: ignore[arg-type]
        self.began = time.monotonic()

    def collect(
        self,
        attempt: AttemptId,
        nodes: Sequence[str],
        goes_on: Callable[[], bool],
        age_s: float,
    ) -> Collected | None:
        self.asked += 1
        assert 0 <= age_s < 600
        assert not goes_on()
        if self.heard.tap:
            self.heard.tap(b'Thread 0x7f (most recent call first):\n  File "train.py", line 3\n')
        return self.answer

    def after(self, seconds: float, job: SlurmJob | None = JOB) -> str:
        """A look after so many seconds without output, with those at most a minute apart before it."""
        for at in range(30, int(seconds), 30):
            if why := self.watch.look(job, self.began + at):
                return why
        return self.watch.look(job, self.began + seconds)


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_watch, "_PRINTED_S", 0.0)


def ended(watch: HangWatch) -> StepEnd:
    return watch.ended(FAILED)


def test_a_hang_is_ended_with_its_suspect_and_its_evidence(tmp_path: Path) -> None:
    setup = Setup(tmp_path, HangLimits(timeout_s=600.0), Heard())
    assert setup.after(590.0) == ""
    why = setup.after(601.0)
    assert why.startswith("hang: nothing printed and no checkpoint written for 60")
    assert "; suspected: worker-2: rank 3: sleeps in hrtimer_nanosleep, while" in why
    end = ended(setup.watch)
    assert (end.how, end.found.suspects) == (why, ("worker-2",))
    assert end.found.cause is not None
    assert end.found.cause.signature.code == "HANG"
    page = (setup.folder / ".holdfast" / "job-7-attempt-2-hang.txt").read_text()
    assert "worker-2 rank 3 pid 93 python3: sleeps in hrtimer_nanosleep" in page
    assert 'File "train.py", line 3' in page
    assert setup.said == [f"what 4 ranks did: {setup.folder}/.holdfast/job-7-attempt-2-hang.txt"]


def test_holdfast_diagnose_reads_the_hang_in_the_jobs_log(tmp_path: Path) -> None:
    setup = Setup(tmp_path, HangLimits(timeout_s=60.0), Heard())
    lines = [f"holdfast: step ended: {setup.after(61.0)}", "srun: error: worker-2: task 3: Aborted"]
    found = diagnose([LogLine(file="log", number=n, text=t) for n, t in enumerate(lines, 1)])
    assert found.cause is not None
    assert (found.cause.signature.code, found.suspects) == ("HANG", ("worker-2",))


def test_what_was_printed_before_explains_the_hang(tmp_path: Path) -> None:
    setup = Setup(tmp_path, HangLimits(timeout_s=60.0), Heard(ECC))
    setup.after(61.0)
    cause = ended(setup.watch).found.cause
    assert cause is not None
    assert "uncorrectable ECC" in cause.line.text


def test_a_job_that_writes_checkpoints_or_prints_goes_on(tmp_path: Path) -> None:
    setup = Setup(tmp_path, HangLimits(timeout_s=600.0), Heard())
    assert setup.after(400.0) == ""
    (setup.folder / "step_5.pt").write_bytes(b"x")
    assert setup.after(630.0) == ""
    setup.heard.heard_at = setup.began + 900.0
    assert setup.watch.look(JOB, setup.began + 1000.0) == ""
    assert setup.asked == 0


@pytest.mark.parametrize(
    "job", [None, replace(JOB, state="SUSPENDED"), replace(JOB, state="COMPLETING")]
)
def test_only_a_running_job_is_ended(tmp_path: Path, job: SlurmJob | None) -> None:
    setup = Setup(tmp_path, HangLimits(timeout_s=60.0), Heard())
    assert setup.after(300.0, job) == ""
    assert setup.asked == 0


def test_a_job_that_goes_on_while_it_is_looked_at_is_left_alone(tmp_path: Path) -> None:
    setup = Setup(tmp_path, HangLimits(timeout_s=60.0), Heard())
    setup.answer = None
    assert setup.after(61.0) == ""
    assert ended(setup.watch) is FAILED
    assert setup.said == []


def test_success_meanwhile_is_success(tmp_path: Path) -> None:
    setup = Setup(tmp_path, HangLimits(timeout_s=60.0), Heard())
    setup.after(61.0)
    done = replace(FAILED, status=0)
    assert setup.watch.ended(done) is done


def test_without_a_timeout_nothing_is_ended_and_an_idle_job_is_reported_once(
    tmp_path: Path,
) -> None:
    """No process of this attempt runs here, so it uses no CPU."""
    setup = Setup(tmp_path, HangLimits(report_s=600.0), Heard())
    assert setup.after(3000.0) == ""
    assert (setup.asked, len(setup.said)) == (0, 1)
    assert "does the command hang? holdfast run --hang-timeout" in setup.said[0]


def test_a_busy_job_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = [0.0]
    monkeypatch.setattr(hang_watch._Idleness, "_used_s", lambda _: used[0])
    setup = Setup(tmp_path, HangLimits(report_s=600.0), Heard())
    for at in range(30, 6000, 30):
        used[0] = at * 0.9
        setup.watch.look(JOB, setup.began + at)
    assert setup.said == []


def test_the_sites_timeout_is_not_for_a_job_whose_standard_output_is_not_heard(
    tmp_path: Path,
) -> None:
    heard = Heard()
    heard.hears_stdout = False
    site = Setup(tmp_path, HangLimits(timeout_s=60.0, of_site=True), heard)
    assert site.after(3000.0) == ""
    (tmp_path / "own").mkdir()
    own = Setup(tmp_path / "own", HangLimits(timeout_s=60.0), Heard())
    own.heard.hears_stdout = False
    own.watch.listen(own.heard)  # type: ignore[arg-type]
    assert own.after(61.0).startswith("hang: ")
    assert "standard output is no file" in own.said[0]


def test_the_checkpoint_folder_is_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large folder on a shared filesystem costs time."""
    looks = []

    def state(_: Path) -> tuple[int, int, int]:
        looks.append(1)
        return 1, 1, 1

    monkeypatch.setattr(hang_watch, "folder_state", state)
    setup = Setup(tmp_path, HangLimits(timeout_s=7200.0), Heard())
    for at in range(5, 7200, 5):
        setup.watch.look(JOB, setup.began + at)
    assert len(looks) == 10


def test_an_attempt_that_somebody_ends_meanwhile_is_not_waited_for(tmp_path: Path) -> None:
    setup = Setup(tmp_path, HangLimits(timeout_s=60.0), Heard())
    setup.after(61.0)
    cancelled = replace(FAILED, terminated=True)
    assert setup.watch.ended(cancelled) is cancelled


def test_without_limits_nothing_is_looked_at(tmp_path: Path) -> None:
    attempt = AttemptId(job_id=7, journal="j", attempt=1)
    watch = HangWatch(attempt, NODES, tmp_path, HangLimits(), print)
    assert watch.look(JOB, time.monotonic() + 9e9) == ""


def test_a_folder_that_cannot_be_written_loses_the_page_and_not_the_restart(
    tmp_path: Path,
) -> None:
    setup = Setup(tmp_path, HangLimits(timeout_s=60.0), Heard())
    (setup.folder / ".holdfast").write_bytes(b"a file")
    assert setup.after(61.0).startswith("hang: ")
    assert "cannot be written" in setup.said[0]
