"""What the ranks did is kept before they are ended, and nothing waits for it for long."""

from __future__ import annotations

import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_hooks.job.diagnosis.causes import diagnose
from slurm_hooks.job.diagnosis.lines.line import Diagnosis, LogLine
from slurm_hooks.job.progress import checkpoint_writer, failure_evidence
from slurm_hooks.job.progress.failure_evidence import FailureEvidence
from slurm_hooks.job.progress.ranks.report import Collected, RankReport
from slurm_hooks.job.step.kill_tasks import AttemptId
from slurm_hooks.job.step.run_step import StepEnd

NODES = ("worker-1", "worker-2")
SRUN = ("srun", "python", "train.py")
FAILED = StepEnd(status=143, started_at=0.0, ended_at=1.0)
WHY = "task 1 on worker-1: Killed"


def diagnosed(*lines: str) -> Diagnosis:
    return diagnose([LogLine(file="log", number=n, text=t) for n, t in enumerate(lines, 1)])


class Heard:
    """The output of an attempt, as the listener tells of it."""

    tap: Callable[[bytes], None] | None = None

    def __init__(self, *printed: str) -> None:
        self._printed = printed

    def so_far(self) -> Diagnosis:
        return diagnosed(*self._printed)


class Setup:
    def __init__(
        self, folder: Path, argv: Sequence[str] = SRUN, heard: Heard | None = None
    ) -> None:
        self.folder, self.heard, self.said = folder, heard or Heard(), list[str]()
        self.asked = list[tuple[tuple[str, ...], bool]]()
        self.answers, self.woken = threading.Event(), threading.Event()
        self.answers.set()
        journal = str(folder / ".holdfast/job-7.jsonl")
        attempt = AttemptId(job_id=7, journal=journal, attempt=2)
        self.evidence = FailureEvidence(
            attempt, NODES, folder, argv, self.said.append, self.collect
        )
        self.evidence.listen(self.heard)  # type: ignore[arg-type]

    def collect(
        self,
        attempt: AttemptId,
        nodes: Sequence[str],
        is_over: Callable[[], bool],
        age_s: float,
        *,
        abort: bool,
    ) -> Collected:
        self.asked.append((tuple(nodes), abort))
        if self.heard.tap:
            self.heard.tap(b'  File "train.py", line 3 in all_reduce\n')
        while not self.answers.is_set():
            if is_over():
                return Collected()
            time.sleep(0.01)
        ranks = (RankReport(node="worker-2", rank=2, pid=9, name="python3", state="S"),)
        return Collected(ranks=ranks, answered=frozenset(nodes))

    def begin(self, why: str = WHY, *, by_watch: bool = False) -> bool:
        return self.evidence.begin(why, self.woken.set, by_watch=by_watch)

    @property
    def page(self) -> Path:
        return self.folder / ".holdfast/job-7-attempt-2-failure.txt"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_evidence, "_SETTLE_S", 0.05)
    monkeypatch.delenv("SLURM_KILL_BAD_EXIT", raising=False)
    monkeypatch.delenv("PYTHONFAULTHANDLER", raising=False)


def test_after_a_failure_the_ranks_are_kept_and_then_ended(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    assert setup.begin()
    assert setup.woken.wait(20)
    assert setup.evidence.is_complete()
    assert setup.evidence.ended(FAILED) is FAILED
    assert setup.asked == [(NODES, True)]
    page = setup.page.read_text()
    assert page.startswith(f"step ended: {WHY}\n\nworker-2 rank 2 pid 9 python3: sleeps")
    assert "worker-1: no answer" not in page
    assert page.endswith("line 3 in all_reduce\n")
    assert setup.said == [f"what 1 rank did: {setup.page}"]


@pytest.mark.parametrize(
    ("why", "by_watch", "abort"),
    [(WHY, False, False), ("bad node: worker-1 (XID79)", True, True)],
)
def test_in_a_script_that_may_go_on_no_rank_is_ended(
    tmp_path: Path, why: str, by_watch: bool, abort: bool
) -> None:
    """``srun probe || true``: the ranks of the next step run already."""
    setup = Setup(tmp_path, argv=("bash", "run.sh"))
    assert setup.begin(why, by_watch=by_watch)
    assert setup.woken.wait(20)
    assert setup.asked == [(NODES, abort)]


def test_a_step_that_ends_by_itself_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_evidence, "_SETTLE_S", 20.0)
    setup = Setup(tmp_path)
    assert setup.begin()
    began = time.monotonic()
    setup.evidence.ended(FAILED)
    assert time.monotonic() - began < 10
    assert (setup.asked, setup.page.exists(), setup.said) == ([], False, [])


def test_nodes_that_do_not_answer_delay_the_end_by_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_evidence, "_LIMIT_S", 0.5)
    setup = Setup(tmp_path)
    setup.answers.clear()
    assert setup.begin()
    assert not setup.evidence.is_complete()
    assert setup.woken.wait(20), "given up"
    assert setup.evidence.is_complete()


@pytest.mark.parametrize(
    ("why", "by_watch", "asked"),
    [
        ("bad node: worker-1 (XID79)", True, True),
        ("time limit in 0:01:00; continues after a requeue", True, False),
        ("hang: nothing printed", True, False),
        ("worker-1: Node failure", False, False),
    ],
)
def test_for_which_ends(tmp_path: Path, why: str, by_watch: bool, asked: bool) -> None:
    setup = Setup(tmp_path)
    assert setup.begin(why, by_watch=by_watch) is asked


def test_a_node_that_is_gone_is_not_asked(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.evidence.lost = frozenset({"worker-1"})
    assert setup.begin("bad node: worker-1 (DOWN)", by_watch=True)
    assert setup.woken.wait(20)
    assert setup.asked == [(("worker-2",), True)]
    setup.evidence.ended(FAILED)
    assert "worker-1: no answer" in setup.page.read_text()


def test_ranks_have_time_to_complete_a_checkpoint(tmp_path: Path) -> None:
    part = tmp_path / "step_5.pt.tmp"
    part.write_bytes(b"1")
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.01):
            with part.open("ab") as file:
                file.write(b"2")
        with zipfile.ZipFile(part, "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
            archive.writestr("archive/version", "3")
        part.rename(tmp_path / "step_5.pt")

    writer = threading.Thread(target=write)
    writer.start()
    setup = Setup(tmp_path)
    assert setup.begin()
    assert not setup.woken.wait(1.0), "the checkpoint grows"
    assert not setup.evidence.is_complete()
    stop.set()
    writer.join()
    assert setup.woken.wait(20)
    assert setup.asked == [(NODES, False)], "nobody is aborted"
    assert "a checkpoint is being written" in setup.said[0]


def test_a_writer_that_stops_halfway_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_evidence, "_QUIET_S", 0.3)
    looks = iter([1, 2, 3, 3, *[3] * 100])
    monkeypatch.setattr(checkpoint_writer, "unfinished", lambda _: ("step_5.pt.tmp", next(looks)))
    setup = Setup(tmp_path)
    assert setup.begin()
    assert setup.woken.wait(20)


def test_the_abort_that_prints_the_stacks_is_no_cause(tmp_path: Path) -> None:
    aborted = "Fatal Python error: Aborted"
    setup = Setup(tmp_path)
    setup.begin()
    assert setup.woken.wait(20)
    end = replace(FAILED, found=diagnosed(aborted))
    assert end.found.cause is not None
    assert setup.evidence.ended(end).found.cause is None


def test_the_agents_abort_on_a_bad_node_is_no_cause() -> None:
    aborted = replace(FAILED, found=diagnosed("Fatal Python error: Aborted"))
    assert failure_evidence.without_abort(aborted).found.cause is None
    other = replace(FAILED, found=diagnosed("Fatal Python error: Segmentation fault"))
    assert failure_evidence.without_abort(other) is other
    assert failure_evidence.without_abort(FAILED) is FAILED


def test_a_cause_is_kept(tmp_path: Path) -> None:
    printed = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",)
    setup = Setup(tmp_path, heard=Heard(*printed))
    setup.begin()
    assert setup.woken.wait(20)
    end = replace(FAILED, found=diagnosed(*printed, "Fatal Python error: Aborted"))
    assert setup.evidence.ended(end) is end


@pytest.mark.parametrize(
    ("argv", "environ", "takes_over"),
    [
        (SRUN, {}, True),
        (("/usr/bin/srun", "-n2", "a"), {}, True),
        (("bash", "run.sh"), {}, False),
        (("srun", "--kill-on-bad-exit=1", "a"), {}, False),
        (("srun", "-K0", "a"), {}, False),
        (SRUN, {"SLURM_KILL_BAD_EXIT": "0"}, False),
        (SRUN, {"SLURM_KILL_BAD_EXIT": "1"}, False),
    ],
)
def test_slurm_ends_the_step_where_somebody_has_said_so_and_in_scripts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: Sequence[str],
    environ: dict[str, str],
    takes_over: bool,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    evidence = Setup(tmp_path, argv).evidence
    assert evidence.takes_over is takes_over
    assert ("SLURM_KILL_BAD_EXIT" in evidence.environment()) is takes_over
    assert evidence.environment()["PYTHONFAULTHANDLER"] == "1"
