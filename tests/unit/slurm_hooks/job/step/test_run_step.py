"""Ends steps on real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_hooks.job.step import kill_tasks
from slurm_hooks.job.step.run_step import StepEnd, StepSignals, run_step
from slurm_hooks.job.step.srun_output import aborts_itself, cancelled_step_in, task_failure_in
from slurm_hooks.job.step.termination import StepPlan


def _run(
    script: str,
    *,
    watch: Callable[[], str] = lambda: "",
    end_tasks: Callable[[frozenset[str]], None] = lambda steps: None,
    grace_s: float = 0.3,
    last_kill_s: float = 10.0,
) -> StepEnd:
    plan = StepPlan(
        argv=["sh", "-c", script],
        env=os.environ,
        watch=watch,
        end_tasks=end_tasks,
        poll_s=0.1,
        end_grace_s=grace_s,
        last_kill_s=last_kill_s,
    )
    with StepSignals().caught() as signals:
        return run_step(plan, signals)


def test_a_successful_step() -> None:
    end = _run("exit 0")
    assert (end.status, end.exit_code, end.failures) == (0, 0, ())


def test_the_exit_code_is_kept() -> None:
    assert _run("exit 7").exit_code == 7


def test_a_signal_becomes_the_exit_code_of_a_shell() -> None:
    end = _run("kill -9 $$")
    assert (end.exit_code, end.how) == (137, "signal 9")


def test_standard_error_is_copied_unchanged(capfd: pytest.CaptureFixture[str]) -> None:
    end = _run("printf 'one\\ntwo\\0\\377 half' >&2; printf out")
    output = capfd.readouterr()
    assert output.out == "out"
    assert output.err == "one\ntwo\0\ufffd half"
    assert end.status == 0


def test_the_exit_code_of_the_first_failed_task_counts_not_sruns_highest() -> None:
    lines = (
        "srun: error: n1: task 1: Exited with exit code 93\\nsrun: error: n2: task 2: Terminated"
    )
    end = _run(f"printf '{lines}\\n' >&2; exit 143")
    assert end.exit_code == 93
    assert end.how == "task 1 on n1: Exited with exit code 93"


def test_after_a_rank_failed_the_others_are_ended_within_the_grace_period() -> None:
    ended: list[float] = []
    begun = time.monotonic()
    end = _run(
        "echo 'srun: error: n1: task 1: Killed' >&2; exec sleep 4",
        end_tasks=lambda steps: ended.append(time.monotonic() - begun),
    )
    assert len(ended) == 1
    assert 0.25 < ended[0] < 3.5, "before the step's own end"
    assert end.how == "task 1 on n1: Killed"
    assert not end.ended_why


@pytest.mark.parametrize(
    ("word", "environ"),
    [("--kill-on-bad-exit=0", {}), ("-K0", {}), ("-n2", {"SLURM_KILL_BAD_EXIT": "0"})],
)
def test_with_kill_on_bad_exit_0_the_other_ranks_continue(
    word: str, environ: dict[str, str]
) -> None:
    ended: list[frozenset[str]] = []
    plan = StepPlan(
        argv=["sh", "-c", "echo 'srun: error: n1: task 1: Killed' >&2; sleep 0.5; exit 6", word],
        env={**os.environ, **environ},
        watch=lambda: "",
        end_tasks=ended.append,
        poll_s=0.1,
        end_grace_s=0.0,
        last_kill_s=0.0,
    )
    with StepSignals().caught() as signals:
        assert run_step(plan, signals).exit_code == 6
    assert ended == []


def test_in_a_script_only_the_steps_that_srun_ends_are_ended(tmp_path: Path) -> None:
    ended: list[frozenset[str]] = []

    def end_tasks(steps: frozenset[str]) -> None:
        ended.append(steps)
        (tmp_path / str(len(ended))).touch()

    def failing(step: int, then: int) -> str:
        lines = f"srun: error: n1: task 0: Killed\nsrun: Terminating StepId=7.{step}"
        return f"printf '{lines}\\n' >&2; until [ -e {tmp_path}/{then} ]; do sleep 0.05; done"

    end = _run(
        f"{failing(0, 1)}; {failing(12, 2)}", end_tasks=end_tasks, grace_s=0.1, last_kill_s=0.1
    )
    assert ended == [frozenset({"0"}), frozenset({"12"})]
    assert (end.status, end.ended_why) == (0, "")


def test_a_script_outlives_the_srun_that_waits_for_a_lost_node(tmp_path: Path) -> None:
    srun = tmp_path / "srun"
    srun.symlink_to("/bin/sleep")
    begun = time.monotonic()
    end = _run(
        f'{srun} 60 & until [ "$(cat /proc/$!/comm)" = srun ]; do sleep 0.05; done; '
        f"echo 'srun: error: Node failure on n1' >&2; wait $!; exit 4",
        grace_s=0.1,
        last_kill_s=0.1,
    )
    assert end.status == 4
    assert time.monotonic() - begun < 30


def test_exit_code_93_counts_whatever_failed_before() -> None:
    end = _run("echo 'srun: error: n1: task 0: Exited with exit code 1' >&2; exit 93")
    assert end.exit_code == 93


def test_a_bad_node_ends_the_step(tmp_path: Path) -> None:
    begun = time.monotonic()
    end = _run("exec sleep 30", watch=lambda: "bad node: n2 (XID79)")
    assert time.monotonic() - begun < 200
    assert end.status == -signal.SIGTERM
    assert end.how == "bad node: n2 (XID79)"


def test_a_step_that_ignores_sigterm_has_its_tasks_killed() -> None:
    ended = threading.Event()
    end = _run(
        "trap '' TERM; while [ ! -e $$.never ]; do sleep 0.1; [ $i ] || i=0; i=$((i+1)); "
        "[ $i -lt 12 ] || exit 5; done",
        watch=lambda: "bad node",
        end_tasks=lambda steps: ended.set(),
    )
    assert ended.is_set()
    assert end.exit_code == 5


class Slow:
    """Evidence that takes a while."""

    def __init__(self, *, takes_over: bool) -> None:
        self.takes_over = takes_over
        self.begun = list[str]()
        self._complete_at = 0.0

    def begin(self, why: str, wake: Callable[[], None], *, by_watch: bool) -> bool:
        self.begun.append(why)
        self._complete_at = time.monotonic() + 1.0
        return True

    def is_complete(self) -> bool:
        return time.monotonic() > self._complete_at


@pytest.mark.parametrize("failing", [True, False])
def test_no_rank_is_ended_before_the_evidence_is_complete(failing: bool) -> None:
    """The launcher ends the step of a failed rank itself, after that. A bad node does not differ."""
    evidence = Slow(takes_over=True)
    begun = time.monotonic()
    failure = "echo 'srun: error: n1: task 1: Killed' >&2; " if failing else ""
    plan = StepPlan(
        argv=["sh", "-c", f"{failure}exec sleep 30"],
        env={**os.environ, "SLURM_KILL_BAD_EXIT": "0"},
        watch=lambda: "" if failing else "bad node: n2",
        end_tasks=lambda steps: None,
        poll_s=0.1,
        end_grace_s=20.0,
        evidence=evidence,
    )
    with StepSignals().caught() as signals:
        end = run_step(plan, signals)
    assert end.status == -signal.SIGTERM
    assert time.monotonic() - begun > 1.0
    assert evidence.begun == [end.how]


@pytest.mark.parametrize("by_launcher", [True, False])
def test_which_tasks_failed_before_the_step_was_ended(by_launcher: bool) -> None:
    """Programs may exit with the same code because they are told to."""
    first, second = (f"srun: error: n{n}: task {n}: Exited with exit code 1" for n in (1, 2))
    script = f"echo '{first}' >&2; trap 'echo {second} >&2; exit 1' TERM; sleep 20 & wait"
    if not by_launcher:
        script = f"echo '{first}' >&2; echo 'srun: Terminating StepId=1.0' >&2; echo '{second}' >&2; exit 1"
    plan = StepPlan(
        argv=["sh", "-c", script],
        env={**os.environ, "SLURM_KILL_BAD_EXIT": "0"},
        watch=lambda: "",
        end_tasks=lambda steps: None,
        poll_s=0.1,
        end_grace_s=20.0,
        evidence=Slow(takes_over=True),
    )
    with StepSignals().caught() as signals:
        end = run_step(plan, signals)
    assert [(task.tasks, task.ending) for task in end.failures] == [("1", False), ("2", True)]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM])
def test_signals_reach_the_child(number: int, tmp_path: Path) -> None:
    ready = tmp_path / "ready"

    def send() -> None:
        _wait_for(ready.exists)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    name = signal.Signals(number).name[3:]
    try:
        end = _run(f"trap 'exit 9' {name}; : > {ready}; while :; do sleep 0.1; done")
    finally:
        sender.join()
    assert end.exit_code == 9
    assert end.terminated == (number == signal.SIGTERM)


def test_a_descendant_that_keeps_standard_error_open_does_not_delay_the_end() -> None:
    begun = time.monotonic()
    end = _run("sleep 5 & exit 3")
    assert end.exit_code == 3
    assert time.monotonic() - begun < 20


def test_the_child_does_not_outlive_a_killed_launcher(tmp_path: Path) -> None:
    program = (
        "import os, sys; from slurm_hooks.job.step.child import Child; import time; "
        "c = Child(['sleep', '60'], os.environ, time.time, print); print(c.pid, flush=True); time.sleep(60)"
    )
    launcher = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    with launcher.stdout:
        pid = int(launcher.stdout.readline())
    launcher.kill()
    launcher.wait()
    end = time.monotonic() + 5
    while time.monotonic() < end and _alive(pid):
        time.sleep(0.02)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("line", "host", "tasks", "how", "code"),
    [
        ("srun: error: n1: task 1: Killed", "n1", "1", "Killed", None),
        (
            "srun: error: worker-7: task 56: Aborted (core dumped)",
            "worker-7",
            "56",
            "Aborted",
            None,
        ),
        ("srun: error: n2: tasks 2-3: Terminated", "n2", "2-3", "Terminated", None),
        ("srun: error: n1: tasks 0,2: Exited with exit code 93", "n1", "0,2", "", 93),
        ("srun: error: n[1-2]: tasks 0-3: Exited with exit code 1", "n[1-2]", "0-3", "", 1),
        ("srun: error: n1: task 0: Out Of Memory", "n1", "0", "Out Of Memory", None),
        ("srun: error: Node failure on worker-1", "worker-1", "", "Node failure", None),
    ],
)
def test_srun_messages_about_failed_tasks(
    line: str, host: str, tasks: str, how: str, code: int | None
) -> None:
    failure = task_failure_in(line, 1.0)
    assert failure is not None
    assert (failure.host, failure.tasks, failure.code) == (host, tasks, code)
    assert how in failure.how


_AT = "ON worker-0 CANCELLED AT 2026-11-21T22:17:51"


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (f"slurmstepd-worker-0: error: *** STEP 13.2 {_AT} ***", "2"),
        (f"[2026-11-21T22:17:51.8] error: *** STEP 9.0 {_AT} DUE to SIGNAL Killed ***", "0"),
        (f"[2026-11-21T22:17:51.8] error: *** STEP 9.0 {_AT} DUE TO TASK FAILURE ***", ""),
        (f"slurmstepd: error: *** STEP 9.0 {_AT} DUE TO NODE FAILURE, SEE … ***", ""),
        (f"slurmstepd: error: *** STEP 9.0 {_AT} DUE TO JOB REQUEUE ***", ""),
        (f"slurmstepd: error: *** JOB 9 {_AT} ***", ""),
        ("slurmstepd: error: *** STEP 9.0 ON n FAILED (non-zero exit code or …) ***", ""),
    ],
)
def test_slurmstepd_messages_about_a_cancelled_step(line: str, step: str) -> None:
    assert cancelled_step_in(line, task_failed_before=False) == step
    expected = step if "to SIGNAL" in line else ""
    assert cancelled_step_in(line, task_failed_before=True) == expected


_CANCELLED = f"echo 'slurmstepd: error: *** STEP 9.0 {_AT} ***' >&2"
_FAILURE = (
    "echo 'srun: error: worker-1: task 1: Killed' >&2; echo 'srun: Terminating StepId=9.0' >&2"
)

_MPI_ABORT = "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD"


@pytest.mark.parametrize(
    ("line", "itself"),
    [
        (_MPI_ABORT, True),
        ("application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0", True),
        ("Abort(1) on node 0 (rank 0 in comm 0): application called MPI_Abort(comm=0x84, 1)", True),
        (
            "slurmstepd: error:  mpi/pmix_v5: _errhandler: n1 [0]: pmixp_client_v2.c:212: "
            "Error handler invoked: status = -25, source = [slurm.pmix.7.0:0]",
            True,
        ),
        ("slurmstepd: error: mpi/pmix_v5: init: n1 [0]: mpi_pmix.c:226: (null)", False),
        ("MPI_Allreduce took 3 s", False),
    ],
)
def test_a_program_that_has_slurm_end_its_step(line: str, itself: bool) -> None:
    assert aborts_itself(line) is itself


@pytest.mark.parametrize(
    ("script", "step"),
    [
        (f"{_CANCELLED}; {_FAILURE}; exit 137", "0"),
        (f"{_CANCELLED}; exit 0", "0"),
        # a task failed first: srun itself cancels the step (24.11 does not name the cause)
        (f"{_FAILURE}; {_CANCELLED}; exit 137", ""),
        # scancel JOB.STEP signals srun, whose message then comes before the failures
        (f"echo 'srun: Job step aborted: …' >&2; {_FAILURE}; {_CANCELLED}; exit 137", "0"),
        # srun also cancels the step for a lost node
        (f"echo 'srun: error: Aborting, io error with …' >&2; {_CANCELLED}; exit 137", ""),
        (f"echo 'srun: error: Node failure on worker-1' >&2; {_CANCELLED}; exit 137", ""),
        # MPI_Abort has slurmctld end the step, which looks like scancel JOB.STEP
        (f"echo {_MPI_ABORT!r} >&2; {_CANCELLED}; {_FAILURE}; exit 137", ""),
        (f"{_CANCELLED}; {_FAILURE}; echo {_MPI_ABORT!r} >&2; exit 137", ""),
        # the script continued, and its next step failed
        (f"{_CANCELLED}; echo 'srun: Terminating StepId=9.1' >&2; exit 1", ""),
    ],
)
def test_a_step_that_a_user_cancels_differs_from_one_that_srun_ends(script: str, step: str) -> None:
    assert _run(script, grace_s=5).cancelled_step == step


def test_a_step_that_the_launcher_ends_does_not_count_as_cancelled() -> None:
    script = (
        f"trap '{_CANCELLED.replace(chr(39), chr(34))}; exit 1' TERM; while :; do sleep 0.05; done"
    )
    end = _run(script, watch=lambda: "bad node: n1 (XID79)")
    assert (bool(end.ended_why), end.cancelled_step) == (True, "")


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: Unable to create step for job 9",
        "srun: Terminating StepId=1.0",
        "task 1: Killed",
    ],
)
def test_other_lines_report_no_failure(line: str) -> None:
    assert task_failure_in(line, 1.0) is None


def test_only_the_tasks_of_the_attempt_are_ended(tmp_path: Path) -> None:
    def process(pid: int, *environ: str) -> None:
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "environ").write_bytes(b"\0".join(pair.encode() for pair in environ) + b"\0")
        (folder / "stat").write_text(f"{pid} (python) S " + "0 " * 18 + "900 0")

    attempt = ("HOLDFAST_ATTEMPT=1", "HOLDFAST_JOURNAL=/c/j")
    process(1, "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", *attempt)
    process(2, "SLURM_JOB_ID=8", "SLURM_STEP_ID=0", *attempt)
    process(3, "SLURM_JOB_ID=7", *attempt)
    process(4, "SLURM_JOB_ID=7", "SLURM_STEP_ID=0")
    process(5, "SLURM_JOB_ID=7", "SLURM_STEP_ID=3", *attempt)
    (tmp_path / "6").mkdir()
    process(7, "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "HOLDFAST_ATTEMPT=1", "HOLDFAST_JOURNAL=/d/j")
    process(8, "SLURM_JOB_ID=7", "SLURM_STEP_ID=12", *attempt)
    process(9, "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "HOLDFAST_ATTEMPT=2", "HOLDFAST_JOURNAL=/c/j")
    first = kill_tasks.AttemptId(job_id=7, journal="/c/j", attempt=1)
    assert sorted(task.pid for task in kill_tasks.tasks(tmp_path, first, "3")) == [1, 8]
    assert [task.pid for task in kill_tasks.tasks(tmp_path, first, "3", ["12"])] == [8]
    left = {process.pid: process.step for process in kill_tasks.processes(tmp_path, first)}
    assert left == {1: "0", 3: None, 5: "3", 8: "12"}


def test_processes_left_over_from_an_attempt_are_ended(tmp_path: Path) -> None:
    attempt = kill_tasks.AttemptId(job_id=7, journal=str(tmp_path), attempt=3)
    environ = {"SLURM_JOB_ID": "7", "HOLDFAST_JOURNAL": str(tmp_path), "HOLDFAST_ATTEMPT": "3"}
    stubborn = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    scripts = ["echo up; exec sleep 60", stubborn]
    started = [
        subprocess.Popen(
            ["sh", "-c", script], env={**os.environ, **environ}, stdout=subprocess.PIPE
        )
        for script in scripts
    ]
    for process in started:
        assert process.stdout is not None
        with process.stdout:
            process.stdout.readline()
    kill_tasks.end_leftovers(attempt, 0.3, time.sleep)
    assert [process.wait(timeout=20) for process in started] == [-signal.SIGTERM, -signal.SIGKILL]


_LAUNCHER = """
import os, sys
from slurm_hooks.job.step.run_step import StepSignals, run_step
from slurm_hooks.job.step.termination import StepPlan
plan = StepPlan(argv=[sys.executable, "-c", sys.argv[1], sys.argv[2]], env=os.environ, watch=lambda: "",
                end_tasks=lambda steps: None, poll_s=0.5, end_grace_s=1.0)
with StepSignals().caught() as signals:
    run_step(plan, signals)
"""
_PROGRAM = """
import os, signal, sys, time
def note(number, _):
    with open(sys.argv[1], "a") as file:
        file.write(f"{number}\\n")
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, note)
note(0, None)
while os.getppid() != 1:
    time.sleep(0.05)
"""
_SENT = [
    *("HUP", "INT", "QUIT", "ABRT", "ALRM", "TERM", "USR1", "USR2", "URG", "CONT", "TSTP", "TTIN"),
    *("TTOU", "XCPU", "VTALRM", "PROF", "WINCH", "IO", "PWR"),
]
"""The names that sbatch, scancel and kill know, but for those that nobody can catch."""


def test_every_signal_that_sbatch_can_send_reaches_the_program(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    argv = [sys.executable, "-c", _LAUNCHER, _PROGRAM, str(seen)]
    launcher = subprocess.Popen(argv, cwd=Path(__file__).parents[5], env={**os.environ})
    try:
        _wait_for(lambda: _numbers(seen) == [0])
        numbers = [signal.Signals[f"SIG{name}"].value for name in _SENT]
        for number in [*numbers, signal.SIGRTMIN, signal.SIGRTMIN + 7, signal.SIGRTMAX]:
            launcher.send_signal(number)
            _wait_for(lambda number=number: _numbers(seen)[-1] == int(number))  # type: ignore[misc]
    finally:
        launcher.kill()
        launcher.wait()


def _numbers(seen: Path) -> list[int]:
    return [int(line) for line in seen.read_text().splitlines()] if seen.exists() else [-1]


def _wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("how", "signalled"),
    [
        ("Interrupt", True),
        ("Hangup", True),
        ("User defined signal 1", True),
        ("Killed", False),
        ("Segmentation fault", False),
        ("Exited with exit code 130", False),
    ],
)
def test_a_task_that_a_persons_signal_ended(how: str, signalled: bool) -> None:
    end = _run(f"echo 'srun: error: worker-1: task 1: {how}' >&2; exit 1")
    assert bool(end.user_signal) is signalled


def test_a_command_that_a_persons_signal_ended() -> None:
    assert _run("kill -HUP $$").user_signal == "Hangup"
    assert _run("kill -KILL $$").user_signal == ""


def test_a_sigterm_is_reported_while_the_command_still_saves() -> None:
    """Slurm kills the launcher after KillWait. Then nobody could tell that it was no failure."""
    told = threading.Event()
    plan = StepPlan(
        argv=[
            "sh",
            "-c",
            "trap 'sleep 0.3; exit 0' TERM; kill -TERM $PPID; while :; do sleep 0.1; done",
        ],
        env=os.environ,
        watch=lambda: "",
        end_tasks=lambda steps: None,
        poll_s=0.1,
        end_grace_s=0.3,
        on_terminated=told.set,
    )
    with StepSignals().caught() as signals:
        end = run_step(plan, signals)
    assert told.wait(60)
    assert (end.terminated, end.status) == (True, 0)


def _fenced(script: str, after_s: float) -> tuple[StepEnd, list[float], float]:
    begin = time.monotonic()
    ended: list[float] = []
    plan = StepPlan(
        argv=["sh", "-c", script],
        env=os.environ,
        watch=lambda: "",
        end_tasks=lambda steps: None,
        poll_s=60.0,
        end_grace_s=30.0,
        fenced=lambda: "a newer attempt" if time.monotonic() - begin > after_s else "",
        end_now=lambda: ended.append(time.monotonic() - begin),
    )
    with StepSignals().caught() as signals:
        end = run_step(plan, signals)
    return end, ended, time.monotonic() - begin


def test_a_step_ends_at_once_when_a_newer_attempt_has_begun() -> None:
    """No SIGTERM and no grace: a handler would save a checkpoint."""
    end, ended, took_s = _fenced("trap 'echo saved' TERM; while :; do sleep 0.1; done", 0.2)
    assert (end.status, end.ended_why, end.whole) == (-signal.SIGKILL, "a newer attempt", False)
    assert len(ended) == 1
    assert took_s < 5


def test_a_step_that_is_not_fenced_ends_by_itself() -> None:
    end, ended, _ = _fenced("exit 3", 60)
    assert (end.status, ended, end.whole) == (3, [], True)


@pytest.mark.parametrize(
    ("printed", "whole"),
    [
        ("srun: error: n1: task 1: Exited with exit code 1", True),
        ("srun: error: Node failure on n1", False),
        ("srun: error: Timed out waiting for job step to complete", False),
    ],
)
def test_a_step_is_whole_unless_srun_reports_a_node_as_lost(printed: str, whole: bool) -> None:
    assert _run(f"echo '{printed}' >&2; sleep 0.2; exit 1").whole is whole


def test_a_step_that_had_to_be_killed_is_not_whole() -> None:
    script = "trap '' TERM; echo 'srun: error: n1: task 1: Killed' >&2; sleep 30"
    end = _run(script, watch=lambda: "bad node: n2", grace_s=0.1, last_kill_s=0.3)
    assert not end.whole
