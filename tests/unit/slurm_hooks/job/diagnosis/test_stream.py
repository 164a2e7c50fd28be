"""Output in pieces of any size: the same cause, in constant memory, whatever the lines look like."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slurm_hooks.job.diagnosis.causes import Diagnosis, Engine

TOP = Path(__file__).parents[5]
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
STEP = "[2026-08-01 10:00:{s:02d}] iteration {n:8d}/  500000 | lm loss: 1.93 | grad norm: 0.7 |\n"


def steps(first: int, count: int) -> str:
    return "".join(STEP.format(s=n % 60, n=n) for n in range(first, first + count))


def diagnosed(*outputs: str, piece: int = 1 << 16) -> Diagnosis:
    engine = Engine()
    for number, text in enumerate(outputs):
        data = text.encode()
        for at in range(0, len(data), piece):
            engine.feed(f"log-{number}", data[at : at + piece])
        engine.end(f"log-{number}")
    return engine.diagnosis()


def code(*outputs: str) -> str | None:
    cause = diagnosed(*outputs).cause
    return cause.signature.code if cause else None


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 16])
def test_the_size_of_the_pieces_does_not_matter(piece: int) -> None:
    found = diagnosed(f"{steps(1, 50)}{ECC}\nsrun: error: w-1: task 3: Killed", piece=piece)
    assert found.cause is not None
    assert (found.cause.signature.code, found.cause.line.number) == ("C04", 51)
    assert found.others == {"L05": 1}


def test_lines_of_a_progress_bar_are_lines_of_their_own() -> None:
    bar = "".join(f"\r {n}%|###   | {n}/100 [00:01<00:02, 2.88it/s]" for n in range(90))
    found = diagnosed(f"begin\n{bar}{ECC}\r\nend\n")
    assert found.cause is not None
    assert (found.cause.signature.code, found.cause.line.number) == ("C04", 2)
    assert len(found.cause.line.text) < 200


def test_the_end_of_a_line_of_megabytes_is_read() -> None:
    found = diagnosed(f"{'x' * (3 << 20)} {ECC}\nnext\n")
    assert found.cause is not None
    assert (found.cause.signature.code, found.cause.line.number) == ("C04", 1)


def test_a_cause_ahead_of_a_cascade_is_found() -> None:
    frames = "".join(
        f'[rank{{r}}]:   File "/opt/x{n}.py", line {n}, in f\n[rank{{r}}]:     f()\n'
        for n in range(40)
    )
    last = "[rank{r}]: torch.distributed.DistBackendError: NCCL error in: x.cpp:94, remote error\n"
    cascade = "".join((frames + last).format(r=rank) for rank in range(512))
    found = diagnosed(
        f"worker-3:11:12 [2] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'\n{cascade}"
    )
    assert found.cause is not None
    assert (found.cause.signature.code, found.cause.line.number) == ("C04", 1)
    assert found.suspects == ("worker-3",)


def test_progress_shows_that_a_line_was_not_fatal() -> None:
    handled = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: bad sample\n'
    assert code(handled + steps(1, 5)) is None
    assert code(steps(1, 5) + handled) == "U01"
    assert code(handled + steps(1, 5) + ECC) == "C04"


def test_the_steps_that_other_ranks_finish_do_not_retract_a_cause() -> None:
    assert code(f"{steps(1, 9)}{ECC}\n{steps(10, 2)}") == "C04"
    same = "".join(f"[rank{rank}]: step: 10 loss: 2.1\n" for rank in range(64))
    assert code(f"{steps(1, 9)}{ECC}\n{same}") == "C04"


def test_steps_that_were_printed_before_a_failure_do_not_count_again() -> None:
    engine = Engine()
    for text in (steps(1, 9), f"{ECC}\n", steps(9, 1), steps(10, 2)):
        engine.feed("log", text.encode())
    cause = engine.diagnosis().cause
    assert cause is not None
    assert cause.signature.code == "C04"
    engine.feed("log", steps(12, 1).encode())
    assert engine.diagnosis().cause is None


def test_training_that_says_that_it_is_done_has_no_cause() -> None:
    assert code(f"ValueError: bad sample\n{steps(1, 1)}Training completed\n") is None


def test_a_lost_peer_is_the_cause_only_if_nothing_else_is() -> None:
    lost = "w-1:1:2 [3] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer w-2<47247>\n"
    found = diagnosed(lost)
    assert found.cause is not None
    assert (found.cause.signature.code, found.suspects) == ("N13", ("w-2",))
    assert code(lost + "srun: error: w-2: task 9: Killed\n") == "L05"
    assert code(lost + ECC) == "C04"


@pytest.mark.parametrize(
    ("name", "message", "expected"),
    [
        ("OSError", "[Errno 5] Input/output error: '/data/a.tar'", "S02"),
        ("RuntimeError", "CUDA error: uncorrectable ECC error encountered", "C04"),
        ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB", "C11"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: '/data/a.tar'", "U12"),
        ("KeyError", "'label'", "U01"),
    ],
)
@pytest.mark.parametrize("where", ["DataLoader worker process 3", "replica 1 on device 1"])
def test_an_exception_that_torch_wraps_is_the_cause(
    name: str, message: str, expected: str, where: str
) -> None:
    header = f"{name}: Caught {name.rpartition('.')[2]} in {where}.\n"
    found = diagnosed(f"{header}Original Traceback (most recent call last):\n{name}: {message}\n")
    assert found.cause is not None
    assert (found.cause.signature.code, found.cause.line.number) == (expected, 3)
    assert code(header) == "U10"


def test_what_explains_a_timeout_is_its_cause() -> None:
    flap = "w-1:1:2 [3] NCCL WARN NET/IB : mlx5_7:1 Got non-fatal async event: port error(10)\n"
    timeout = "[rank3]:[E801 10:00:00.1 x.cpp:607] [Rank 3] Watchdog caught collective operation timeout\n"
    assert code(flap + timeout) == "N11"
    assert code(flap + steps(1, 9) + timeout) == "N01"


@pytest.mark.parametrize("swapped", [False, True])
def test_several_logs_are_ordered_by_their_clocks(swapped: bool) -> None:
    kernel = "Aug  1 10:00:02 w-1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    torch = f"[rank0]:[E801 10:00:05.123456 x.cpp:7] begin\n{ECC}\n"
    slurm = "slurmstepd: error: *** JOB 7 ON w-0 CANCELLED AT 2026-08-01T10:00:09 DUE TO TIME LIMIT ***\n"
    logs = [slurm, torch, kernel]
    found = diagnosed(*(reversed(logs) if swapped else logs))
    assert found.cause is not None
    assert (found.cause.signature.code, found.cause.host) == ("K01", "w-1")
    assert found.suspects == ("w-1",)


def test_addresses_and_ranks_become_hosts_by_what_nccl_prints() -> None:
    start = "".join(
        f"w-{r // 8}:1:2 [{r % 8}] NCCL INFO ncclCommInitRank comm 0x1 rank {r} nranks 32 cudaDev 1\n"
        f"w-{r // 8}:1:2 [{r % 8}] NCCL INFO Bootstrap: Using eth0:10.0.0.{r // 8}<0>\n"
        for r in range(32)
    )
    broken = "w-0:1:2 [3] NCCL WARN NET/IB: Got completion from peer 10.0.0.3<456> with status=12 opcode=0\n"
    assert diagnosed(start + broken).suspects == ("w-0", "w-3")
    timeouts = "".join(
        f"[rank{r}]:[E801 10:00:00.1 x.cpp:6] [Rank {r}] Watchdog caught collective operation timeout\n"
        for r in range(32)
        if r // 8 != 2
    )
    assert diagnosed(start + timeouts).suspects == ("w-2",)


def test_ranks_become_hosts_by_what_older_versions_of_nccl_print() -> None:
    start = "".join(
        f"w-{r // 8}:1:2 [{r % 8}] NCCL INFO comm 0x{r} rank {r} nranks 32 cudaDev 1 busId 1b000 - Init COMPLETE\n"
        for r in range(32)
    )
    timeouts = "".join(
        f"[rank{r}]:[E801 10:00:00.1 x.cpp:6] [Rank {r}] Watchdog caught collective operation timeout\n"
        for r in range(32)
        if r // 8 != 1
    )
    assert diagnosed(start + timeouts).suspects == ("w-1",)


@pytest.mark.parametrize(
    ("line", "host"),
    [
        (
            "(TrainWorker pid=7, ip=10.0.0.3) RuntimeError: CUDA error: uncorrectable ECC error\n",
            "w-3",
        ),
        ("[1,9]<stderr>:[w-9:77] *** CUDA_ERROR_ECC_UNCORRECTABLE\n", "w-9"),
        (
            "mpirun noticed that process rank 9 with PID 0 on node w-9 exited on signal 11 (x).\n",
            "w-9",
        ),
    ],
)
def test_a_host_is_found_in_what_ray_and_mpi_print(line: str, host: str) -> None:
    found = diagnosed("w-3:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.3<0>\n" + line)
    assert found.cause is not None
    assert found.cause.host == host


def test_a_plugin_of_nccl_that_is_not_there_is_no_cause() -> None:
    missing = "w-1:1:2 [0] NCCL INFO NET/Plugin: libnccl-net.so: cannot open shared object file: No such file\n"
    lost = "w-1:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer w-2<47>\n"
    assert code(missing) is None
    assert diagnosed(missing + lost).suspects == ("w-2",)


def test_what_frameworks_print_after_the_cause_is_not_the_cause() -> None:
    engine = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    nccl = "ERROR 08-01 10:00:00 [core.py:515] RuntimeError: NCCL error: unhandled cuda error (run with …)\n"
    assert code(nccl + engine) == "N24"
    assert code(engine) == "U10"
    assert code("wandb: train_loss nan\n") is None


def test_in_the_output_of_a_running_program_the_launchers_lines_are_not_believed() -> None:
    engine = Engine(launcher=False)
    engine.feed("x", b"holdfast: step ended: bad node: worker-1 (XID79: GPU 3 fell off the bus)\n")
    assert engine.diagnosis().cause is None


GROWS = """
import random, resource, sys
from slurm_hooks.job.diagnosis.causes import Engine
engine, random = Engine(), random.Random(7)
words = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(50_000)]
def feed(blocks):
    for _ in range(blocks):
        lines = (" ".join(random.choices(words, k=12)) for _ in range(100))
        engine.feed("x", ("\\n".join(lines) + "\\nValueError: %d\\n" % random.random()).encode())
feed(100)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
feed(400)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_log() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GROWS], cwd=TOP, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 4096  # KiB
