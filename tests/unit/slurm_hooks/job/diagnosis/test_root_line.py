"""Which of several messages about one failure is the cause."""

from __future__ import annotations

import pytest

from slurm_hooks.job.diagnosis.causes import CLASS_OF, Engine
from slurm_hooks.job.diagnosis.lines.line import Cause

IGNORED = """\
{0}Exception ignored in: <function Loader.__del__ at 0x7f0000000000>
{0}Traceback (most recent call last):
{0}  File "/opt/loader.py", line 7, in __del__
{0}    self.stop()
{0}RuntimeError: DataLoader worker (pid 811) is killed by signal: Aborted.
"""
CHAINED = """\
Exception ignored in: <function Loader.__del__ at 0x7f0000000000>
Traceback (most recent call last):
  File "/opt/loader.py", line 7, in __del__
    self.stop()
KeyError: 'worker'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/loader.py", line 9, in __del__
    assert False
AssertionError: can only test a child process
"""
LOGGING = """\
--- Logging error ---
Traceback (most recent call last):
  File "/usr/lib/python3.11/logging/__init__.py", line 1113, in emit
    stream.write(msg + self.terminator)
OSError: [Errno 116] Stale file handle
"""
REAL = """\
Traceback (most recent call last):
  File "/opt/train.py", line 3, in <module>
    main()
TypeError: forward() takes 2 positional arguments but 3 were given
"""
PORT = (
    "[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:{} "
    "(errno: 98 - Address already in use).\n"
)
NO_PORT = "[E socket.cpp:500] [c10d] The server socket has failed to listen on any local network address.\n"
NAN = "INFO: evaluated, test_loss nan\n"
CANCELLED = "slurmstepd: error: *** JOB 7 ON w-1 CANCELLED AT 2026-08-01T10:00:00 ***\n"


def cause(text: str) -> Cause | None:
    engine = Engine()
    engine.feed("log", text.encode())
    engine.end("log")
    return engine.diagnosis().cause


def number_and_class(text: str) -> tuple[int, str] | None:
    found = cause(text)
    return (found.line.number, CLASS_OF[found.signature.kind]) if found else None


def steps(first: int, count: int) -> str:
    return "".join(f"Epoch {n}\n" for n in range(first, first + count))


@pytest.mark.parametrize(
    "ignored", [IGNORED.format(""), IGNORED.format("[rank3]: "), CHAINED, LOGGING]
)
def test_an_error_that_python_ignored_is_no_cause(ignored: str) -> None:
    assert cause(ignored) is None
    found = cause(ignored + REAL)
    assert found is not None
    assert "positional arguments" in found.line.text


def test_an_error_after_an_ignored_one_is_not_ignored() -> None:
    found = cause(IGNORED.format("") + "RuntimeError: the model has no parameters\n")
    assert found is not None
    assert "no parameters" in found.line.text


def test_an_error_of_another_rank_within_an_ignored_traceback_is_not_ignored() -> None:
    lines = IGNORED.format("[rank0]: ").splitlines(keepends=True)
    log = "".join(lines[:3]) + "[rank1]: KeyError: 'loss'\n" + "".join(lines[3:])
    found = cause(log)
    assert found is not None
    assert found.rank == 1


def test_the_header_of_a_wrapped_error_is_not_the_error() -> None:
    header = "PIL.UnidentifiedImageError: Caught UnidentifiedImageError in DataLoader worker process 3.\n"
    assert number_and_class(header + "PIL.UnidentifiedImageError: cannot identify\n") == (
        2,
        "application",
    )


def test_a_port_that_is_taken_is_told_by_the_warning_that_names_it() -> None:
    log = PORT.format(29500) + PORT.format(29500) + NO_PORT
    assert number_and_class(log) == (1, "infrastructure")


def test_a_port_warning_yields_to_an_error_of_the_program() -> None:
    assert number_and_class(PORT.format(40001) + REAL) == (5, "user")


def test_what_training_has_survived_before_is_not_why_it_was_cancelled() -> None:
    assert number_and_class(steps(0, 2) + NAN + CANCELLED) == (3, "application")
    log = steps(0, 2) + NAN + steps(2, 2) + NAN + steps(4, 2) + NAN + CANCELLED
    assert number_and_class(log) == (10, "scheduler")


def test_what_training_has_survived_is_better_than_no_answer() -> None:
    found = number_and_class(NAN + steps(0, 4) + NAN)
    assert found == (6, "application")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("[rank0]: AssertionError: Rank 3: found NaN in local grad norm, node: w-3", "application"),
        ("RuntimeError: cuda runtime error (2) : out of memory at Storage.cu:1", "application"),
        ("program: cuda runtime error (30) : unknown error at Storage.c:1", "hardware"),
        ("ValueError: Free memory on device (8.0/80.0 GiB) on startup is less than desired", "application"),
        ("RuntimeError: Failed to find C compiler. Please specify via CC", "infrastructure"),
        ("W0801 api.py:719] Received 1 death signal, shutting down workers", "scheduler"),
        ("SignalException: Process 811 got signal: 1", "scheduler"),
        ("slurmstepd: error: execve(): /var/spool/job00007/slurm_script: No such file or directory", "infrastructure"),
        ("slurmstepd: error: execve(): my-program: No such file or directory", "user"),
        ("2026-08-01T10:00:00.123456789Z stderr F KeyError: 'loss'", "user"),
        ("pretrain/0 [rank4]: KeyError: 'loss'", "user"),
        ("bash: line 4:  811 Aborted                 (core dumped) python3 train.py", "user"),
        ("RuntimeError: [rank 1] HSA_STATUS_ERROR: A generic error has occurred.", "hardware"),
        ("w-1:8:9 [0] init.cc:1 NCCL WARN NET/OFI Couldn't open AV. RC: -22", "network"),
    ],
)  # fmt: skip
def test_class_of_a_line(line: str, kind: str) -> None:
    assert number_and_class(line) == (1, kind)


def test_what_an_exception_says_is_better_than_that_it_was_thrown() -> None:
    thrown = "terminate called after throwing an instance of 'std::runtime_error'\n"
    found = number_and_class(thrown + "  what():  NCCL error: internal error, NCCL version 2.7.8\n")
    assert found == (2, "network")
    assert number_and_class(thrown + "  what():  no more tea\n") == (1, "user")


def test_a_retry_of_nccl_is_no_cause() -> None:
    line = "w-1:8:9 [0] NCCL INFO Call to connect returned Connection refused, retrying\n"
    assert cause(line) is None
    assert cause(line.replace(", retrying", "")) is not None


def test_evaluation_that_goes_on_shows_that_a_warning_was_harmless() -> None:
    warning = "w-1:8:9 [0] NCCL WARN nvmlInit_v2() failed: Driver/library version mismatch\n"
    rows = "".join(f"Evaluation  [{n}/500]  eta: 0:01:00    time: 1.5\n" for n in range(4))
    assert number_and_class(warning) == (1, "hardware")
    assert cause(warning + rows) is None
