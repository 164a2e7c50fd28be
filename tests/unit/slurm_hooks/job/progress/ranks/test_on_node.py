"""What ranks do, read from real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_hooks.job.progress.ranks import collection, flight_dump, on_node
from slurm_hooks.job.progress.ranks.processes import RankProcess, on_this_node, ranks
from slurm_hooks.job.progress.ranks.report import RankReport
from slurm_hooks.job.step import kill_tasks
from slurm_hooks.job.step.kill_tasks import AttemptId, AttemptProcess
from slurm_hooks.node.process import catches

PROC = Path("/proc")
_WAIT = "import sys; sys.stdin.read()"
_SLEEP = "import time\ndef stuck_here():\n    time.sleep(600)\nstuck_here()"
_RECORDER = """
import os, pickle
stem, rank = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"], os.environ["SLURM_PROCID"]
os.mkfifo(stem + rank + ".pipe")
os.read(os.open(stem + rank + ".pipe", os.O_RDONLY), 9)
entry = {"state": "scheduled", "process_group": ("0", "default_pg"), "collective_seq_id": 12}
with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + rank + ".tmp", "wb") as out:
    pickle.dump({"entries": [entry]}, out)
os.rename(out.name, out.name[:-4])
os.read(0, 1)
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptId:
    return AttemptId(job_id=4711, journal=str(tmp_path / "journal"), attempt=2)


@pytest.fixture
def start(attempt: AttemptId) -> Iterator[Start]:
    """Starts a process of a rank; all of them end with the test."""
    started = []

    def begin(rank: int, *argv: str, **env: str) -> subprocess.Popen[bytes]:
        ours = {
            "SLURM_JOB_ID": str(attempt.job_id),
            "SLURM_STEP_ID": "0",
            "SLURM_PROCID": str(rank),
            "HOLDFAST_JOURNAL": attempt.journal,
            "HOLDFAST_ATTEMPT": str(attempt.attempt),
            "PATH": os.environ["PATH"],
            **env,
        }
        pipe = subprocess.PIPE
        process = subprocess.Popen(argv, env=ours, stdin=pipe, stderr=pipe, start_new_session=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()


def _until(reached: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def _reports(attempt: AttemptId, sleep_s: float = 0.05) -> list[RankReport]:
    found = on_this_node(PROC, attempt, "7")
    return on_node.reports(PROC, found, "worker-1", lambda _: time.sleep(sleep_s))


def test_where_each_rank_sleeps(start: Start, attempt: AttemptId) -> None:
    start(0, sys.executable, "-c", _WAIT)
    start(1, sys.executable, "-c", _SLEEP)
    start(5, sys.executable, "-c", _SLEEP, SLURM_STEP_ID="7")  # the step of the query itself
    start(6, sys.executable, "-c", _SLEEP, HOLDFAST_ATTEMPT="1")
    places = ("pipe_read", "anon_pipe_read"), ("hrtimer_nanosleep",)

    def settled() -> bool:
        found = _reports(attempt)
        return [report.rank for report in found] == [0, 1] and all(
            report.place in one for report, one in zip(found, places, strict=True)
        )

    _until(settled, f"{_reports(attempt)}")
    first, second = _reports(attempt)
    assert (first.node, first.state, second.state) == ("worker-1", "S", "S")
    assert second.activity == "sleeps in hrtimer_nanosleep"
    assert second.threads == {"hrtimer_nanosleep": 1}


def test_a_rank_that_computes_is_busy(start: Start, attempt: AttemptId) -> None:
    start(0, sys.executable, "-c", "while True: pass")
    _until(lambda: any(r.busy > 0.05 for r in _reports(attempt, 0.3)), "never busy")


def test_the_program_below_a_shell_is_the_rank(start: Start, attempt: AttemptId) -> None:
    start(0, "bash", "-c", "sleep 600; true")
    _until(lambda: [r.name for r in _reports(attempt)] == ["sleep"], "no sleep")


def test_python_prints_its_stacks_at_sigabrt_and_other_programs_are_left_alone(
    start: Start, attempt: AttemptId
) -> None:
    python = start(0, sys.executable, "-c", _SLEEP, PYTHONFAULTHANDLER="1")
    plain = start(1, sys.executable, "-c", _SLEEP)
    shell = start(2, "sleep", "600")
    _until(lambda: catches(PROC, python.pid, signal.SIGABRT), "no handler")
    _until(lambda: len(on_this_node(PROC, attempt, "7")) == 3, "not all are there")
    _until(lambda: _reports(attempt)[0].place == "hrtimer_nanosleep", "not there yet")
    found = [rank.main.process for rank in on_this_node(PROC, attempt, "7")]
    assert [one.pid for one in kill_tasks.abort(PROC, found)] == [python.pid]
    _, printed = python.communicate(timeout=60)
    assert python.returncode == -signal.SIGABRT
    assert b"stuck_here" in printed
    assert (plain.poll(), shell.poll()) == (None, None)


def test_a_flight_recorder_is_asked_and_its_dump_is_read(
    start: Start, attempt: AttemptId, tmp_path: Path
) -> None:
    where = {
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(tmp_path / "pipe_"),
        "TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "dump_"),
    }
    start(3, sys.executable, "-c", _RECORDER, **where)
    _until(lambda: [r.pending for r in _reports(attempt)] == [{"0": 12}], "no dump")


def test_dumps_of_this_attempt_are_kept_beside_the_journal(
    attempt: AttemptId, tmp_path: Path
) -> None:
    """Those that torch has written by itself too, also of a rank that is gone."""
    shared, local = tmp_path / "shared", tmp_path / "local"
    shared.mkdir()
    local.mkdir()
    own = replace(attempt, journal=str(shared / "job-4711.jsonl"))
    for rank, data in ((0, b"zero"), (3, b"three")):
        (local / f"fr_{rank}").write_bytes(data)
    (local / "fr_4").symlink_to("/etc/hostname")
    os.mkfifo(local / "fr_5")
    old = local / "fr_6"
    old.write_bytes(b"of another job")
    os.utime(old, (1.0, 1.0))
    (local / "fr_7x").write_bytes(b"no rank")
    environ = {b"TORCH_FR_DUMP_TEMP_FILE": os.fsencode(local / "fr_")}
    flight_dump.keep(own, flight_dump.places(PROC, [], environ), age_s=60.0)
    found = {path.name: path.read_bytes() for path in shared.iterdir()}
    name = "job-4711-attempt-2-flight-rank-{}.pickle"
    assert found == {name.format(0): b"zero", name.format(3): b"three"}


def test_dumps_of_old_attempts_are_removed(attempt: AttemptId, tmp_path: Path) -> None:
    def dumps(number: int) -> list[Path]:
        one = replace(attempt, attempt=number)
        return [flight_dump.copy_of(one, rank) for rank in (0, 12)]

    for path in (path for number in range(1, 6) for path in dumps(number)):
        path.write_bytes(b"dump")
    collection.remove_old_dumps(replace(attempt, attempt=5))
    assert {path for path in tmp_path.iterdir() if path.suffix == ".pickle"} == {
        path for number in (3, 4, 5) for path in dumps(number)
    }


def test_before_sigkill_python_prints_its_stacks(start: Start, attempt: AttemptId) -> None:
    python = start(0, sys.executable, "-c", _SLEEP, PYTHONFAULTHANDLER="1")
    shell = start(2, "sleep", "600")
    _until(lambda: catches(PROC, python.pid, signal.SIGABRT), "no handler")
    _until(lambda: len(on_this_node(PROC, attempt, "7")) == 2, "not all are there")
    _until(lambda: _reports(attempt)[0].place == "hrtimer_nanosleep", "not there yet")
    kill_tasks.end(PROC, list(kill_tasks.tasks(PROC, attempt, "7")))
    _, printed = python.communicate(timeout=60)
    assert b"stuck_here" in printed
    assert shell.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("what", ["a file", "nothing"])
def test_only_a_pipe_of_torch_is_written_to(
    start: Start, attempt: AttemptId, tmp_path: Path, what: str
) -> None:
    if what == "a file":
        (tmp_path / "pipe_3.pipe").write_bytes(b"precious")
    start(3, "sleep", "600", TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "pipe_"))
    _until(lambda: len(_reports(attempt)) == 1, "not there")
    assert _reports(attempt)[0].pending is None
    if what == "a file":
        assert (tmp_path / "pipe_3.pipe").read_bytes() == b"precious"


def process(
    pid: int, parent: int, name: str, rank: int, *, by_torchrun: bool = False
) -> RankProcess:
    return RankProcess(
        process=AttemptProcess(pid, 1, "0"),
        parent=parent,
        name=name,
        rank=rank,
        by_torchrun=by_torchrun,
        environ={},
    )


def test_torchruns_workers_are_the_ranks_and_torchrun_is_none() -> None:
    found = ranks(
        [
            process(10, 1, "torchrun", 0),
            process(11, 10, "python3", 4, by_torchrun=True),
            process(12, 10, "python3", 5, by_torchrun=True),
            process(13, 12, "pt_data_worker", 5, by_torchrun=True),
        ]
    )
    assert [(rank.number, rank.main.pid, len(rank.others)) for rank in found] == [
        (4, 11, 0),
        (5, 12, 1),
    ]


def test_a_shell_with_several_programs_is_the_rank_itself() -> None:
    (rank,) = ranks(
        [process(10, 1, "bash", 0), process(11, 10, "python3", 0), process(12, 10, "tee", 0)]
    )
    assert rank.main.name == "bash"
