"""The scan of all processes: each user's own thread, a time limit, and errors that are not lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_hooks.node.process_scan import each, uid_of

ROOT = Path(__file__).parents[4]
ALICE, BOB = 2001, 2002


def add(procfs: Path, pid: int, uid: int | None, cgroup: str = "") -> None:
    (procfs / str(pid)).mkdir()
    (procfs / str(pid) / "cgroup").write_text(cgroup)
    if uid is not None:
        (procfs / str(pid) / "status").write_text(f"Name:\tx\nUid:\t{uid}\t0\t0\t0\n")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened when the test ends, so that no thread stays."""
    opened = threading.Event()
    yield opened
    opened.set()


def test_the_uid_is_the_real_one(tmp_path: Path) -> None:
    add(tmp_path, 10, ALICE)
    add(tmp_path, 11, None)
    assert uid_of(tmp_path / "10") == ALICE
    assert uid_of(tmp_path / "11") is None
    assert uid_of(tmp_path / "12") is None


def test_every_process_of_every_user_is_looked_at(tmp_path: Path) -> None:
    for pid, uid in ((10, ALICE), (11, BOB), (12, ALICE), (13, None)):
        add(tmp_path, pid, uid)
    (tmp_path / "self").mkdir()
    assert sorted(each(tmp_path, lambda pid: pid)) == [10, 11, 12, 13]
    assert sorted(each(tmp_path, lambda pid: pid if pid % 2 else None)) == [11, 13]


def test_users_that_do_not_answer_are_named_after_the_others_results(
    tmp_path: Path, gate: threading.Event
) -> None:
    for pid, uid in ((10, ALICE), (11, BOB)):
        add(tmp_path, pid, uid)

    def look(pid: int) -> int:
        if pid == 10:
            gate.wait(30)
        return pid

    found = each(tmp_path, look, patience_s=1.0)
    assert next(found) == 11
    with pytest.raises(TimeoutError, match=f"^processes of uid {ALICE} did not answer within 1 s$"):
        next(found)


@pytest.mark.parametrize(
    ("cgroup", "most"),
    [("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n", 1), ("", 65)],
)
def test_a_user_with_many_uids_takes_few_threads(tmp_path: Path, cgroup: str, most: int) -> None:
    """As in a container without root. The agent's unit has a limit of tasks."""
    for pid in range(100, 400):
        add(tmp_path, pid, 100_000 + pid, cgroup)
    threads = list(each(tmp_path, lambda _: threading.current_thread().name))
    assert len(threads) == 300
    assert len(set(threads)) == most


def test_a_cgroup_with_the_name_of_anothers_job_delays_nothing(
    tmp_path: Path, gate: threading.Event
) -> None:
    """Below the cgroup of a login its user may create any."""
    login = "0::/user.slice/user-2001.slice/user@2001.service/job_7/step_0\n"
    add(tmp_path, 10, ALICE, login)
    add(tmp_path, 11, BOB, "4:memory:/slurm/uid_2002/job_7/step_0\n")

    def look(pid: int) -> int:
        if pid == 10:
            gate.wait(30)
        return pid

    found = each(tmp_path, look, patience_s=1.0)
    assert next(found) == 11
    with pytest.raises(TimeoutError, match=f"^processes of uid {ALICE} did"):
        next(found)


def test_without_any_time_left_it_waits_for_nobody(tmp_path: Path, gate: threading.Event) -> None:
    add(tmp_path, 10, ALICE)

    def look(pid: int) -> int:
        gate.wait(0.5)
        return pid

    with pytest.raises(TimeoutError):
        list(each(tmp_path, look, patience_s=0.0))


@pytest.mark.parametrize("error", [ValueError("a defect"), SystemExit(3)])
def test_an_error_in_a_thread_is_raised_in_the_caller(tmp_path: Path, error: BaseException) -> None:
    add(tmp_path, 10, ALICE)

    def look(_pid: int) -> None:
        raise error

    with pytest.raises(type(error)):
        list(each(tmp_path, look))


def test_a_thread_that_blocks_does_not_keep_the_worker_alive(tmp_path: Path) -> None:
    add(tmp_path, 10, ALICE)
    code = (
        "import pathlib, sys, threading\n"
        "from slurm_hooks.node.process_scan import each\n"
        "try:\n"
        "    list(each(pathlib.Path(sys.argv[1]), lambda pid: threading.Event().wait(60), 0.1))\n"
        "except TimeoutError:\n"
        "    sys.exit(7)\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(argv, cwd=ROOT, check=False, timeout=20).returncode == 7
