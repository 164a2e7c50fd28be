"""All that an attempt prints is heard: standard output, standard error, and srun's own files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_hooks.job.diagnosis.causes import Engine
from slurm_hooks.job.step import output_files
from slurm_hooks.job.step.output_reader import Listener
from slurm_hooks.job.step.rank_hosts import rank_count, rank_hosts

TOP = Path(__file__).parents[5]
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
STEP = """
import os, sys
from slurm_hooks.job.step.run_step import StepPlan, StepSignals, run_step
plan = StepPlan(
    argv=["sh", "-c", sys.argv[1]], env=os.environ, watch=lambda: "", end_tasks=lambda steps: None,
    poll_s=5, end_grace_s=1,
)
with StepSignals().caught() as signals:
    end = run_step(plan, signals)
cause = end.found.cause
print(f"{cause.signature.code} {cause.line.file}:{cause.line.number}" if cause else None, file=open(sys.argv[2], "w"))
"""


def heard(script: str, tmp_path: Path, *, one_file: bool) -> tuple[str, str]:
    """What a launcher hears whose standard output is a file, as in a batch job; and that file."""
    out, answer = tmp_path / "slurm-7.out", tmp_path / "answer"
    with out.open("ab") as file:
        errors = file if one_file else subprocess.DEVNULL
        argv = [sys.executable, "-c", STEP, script, str(answer)]
        subprocess.run(argv, cwd=TOP, stdout=file, stderr=errors, check=True, timeout=60)
    return answer.read_text().strip(), out.read_text()


@pytest.mark.parametrize("one_file", [True, False])
def test_a_cause_on_standard_output_is_heard(one_file: bool, tmp_path: Path) -> None:
    (tmp_path / "slurm-7.out").write_text("of an earlier run\nTypeError: of an earlier run\n")
    script = f"echo begin; echo '{ECC}'; echo 'srun: error: w-1: task 1: Killed' >&2; exit 1"
    answer, output = heard(script, tmp_path, one_file=one_file)
    assert answer == "C04 stdout:2"
    assert output.count(ECC) == 1


def test_standard_error_is_heard_without_a_file(tmp_path: Path) -> None:
    answer, _ = heard(f"echo '{ECC}' >&2; exit 1", tmp_path, one_file=False)
    assert answer == "C04 stderr:1"


def test_a_cause_ahead_of_a_long_cascade_is_heard(tmp_path: Path) -> None:
    script = f"echo '{ECC}' >&2; for n in $(seq 3000); do echo \"frame $n: Broken pipe\" >&2; done"
    assert heard(script, tmp_path, one_file=True)[0] == "C04 stdout:1"


def test_the_files_of_srun_are_heard_from_the_attempts_begin(tmp_path: Path) -> None:
    (tmp_path / "train-7-0.log").write_text("TypeError: of an earlier attempt\n")
    env = {"SLURM_JOB_ID": "7"}
    listener = Listener(Engine(), ["srun", "-o", f"{tmp_path}/train-%j-%t.log", "python"], env)
    listener.start(os.getpid())
    with (tmp_path / "train-7-0.log").open("a") as file:
        file.write("step 1\n")
    (tmp_path / "train-7-1.log").write_text(f"step 1\n{ECC}\n")
    cause = listener.finish().cause
    assert cause is not None
    assert (cause.signature.code, cause.line.file) == ("C04", f"{tmp_path}/train-7-1.log")


def test_a_file_that_is_truncated_is_read_again(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("x" * 1000)
    listener = Listener(Engine(), ["srun", f"--output={log}", "python"], {})
    log.write_text(f"{ECC}\n")
    listener.start(os.getpid())
    cause = listener.finish().cause
    assert cause is not None
    assert cause.line.number == 1


def test_a_pipe_in_the_place_of_an_output_file_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.log")
    listener = Listener(Engine(), ["srun", f"--output={tmp_path}/train.log", "python"], {})
    listener.start(os.getpid())
    assert listener.finish().cause is None


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["srun", "-o", "a", "--error=b", "python", "x.py"], ("a", "b")),
        (["/usr/bin/srun", "-oa", "--", "x", "-o", "c"], ("a",)),
        (["srun", "--output=none", "--error", "3", "x"], ()),
        (["bash", "-o", "a"], ()),
        ([], ()),
    ],
)
def test_the_options_of_srun_name_the_files(argv: list[str], names: tuple[str, ...]) -> None:
    assert output_files.names(argv, {}) == names


def test_the_variables_of_srun_name_files_too() -> None:
    assert output_files.names(["srun", "x"], {"SLURM_STDOUTMODE": "log.%j"}) == ("log.%j",)


def test_filename_patterns_are_expanded(tmp_path: Path) -> None:
    for name in ("t-0007-0.log", "t-0007-1.log", "t-0008-0.log", "t-0007-.log", "%j"):
        (tmp_path / name).touch()
    env = {"SLURM_JOB_ID": "7"}
    found = output_files.files("t-%4j-%2t.log", env, tmp_path, 10)
    assert [path.name for path in found] == ["t-0007-0.log", "t-0007-1.log"]
    assert [path.name for path in output_files.files("%%j", env, tmp_path, 10)] == ["%j"]
    assert output_files.files("%j/none/%t", env, tmp_path, 10) == []


def test_ranks_are_placed_by_the_options_of_sbatch() -> None:
    nodes = ["w-0", "w-1", "w-2"]
    known = rank_hosts({"SLURM_TASKS_PER_NODE": "2(x2),1"}, nodes)
    assert known == {0: "w-0", 1: "w-0", 2: "w-1", 3: "w-1", 4: "w-2"}
    assert rank_hosts({"SLURM_TASKS_PER_NODE": "1(x3)"}, nodes) == {}
    assert rank_hosts({"SLURM_TASKS_PER_NODE": "2(x9999)"}, nodes) == {}
    assert (
        rank_hosts({"SLURM_TASKS_PER_NODE": "2(x3)", "SLURM_DISTRIBUTION": "cyclic"}, nodes) == {}
    )
    assert rank_hosts({}, nodes) == {}


def test_what_is_heard_is_passed_on_once_and_standard_error_at_once() -> None:
    listener = Listener(Engine(launcher=False), ["true"], {})
    listener._stderr_is_in_file = False  # whatever pytest does with its output
    pieces: list[tuple[str, bytes]] = []
    copies: list[bytes] = []
    listener.hear = lambda name, data: pieces.append((name, data))
    listener.stderr(b"step 1\n")
    listener.start(os.getpid())
    listener.tap = copies.append
    listener.stderr(f"{ECC}\n".encode())
    assert pieces == [("stderr", b"step 1\n"), ("stderr", f"{ECC}\n".encode())]
    assert copies == [f"{ECC}\n".encode()]
    cause = listener.so_far().cause
    assert cause is not None
    assert cause.signature.code == "C04"
    assert listener.finish().cause == cause


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("srun python train.py", 2),
        ("srun torchrun --nproc-per-node=8 train.py", 16),
        ("srun /opt/venv/bin/torchrun --nproc_per_node 4 train.py", 8),
        ("srun python -m torch.distributed.run --nproc-per-node=8 train.py", 16),
        ("srun torchrun train.py", 2),
        ("srun torchrun --nproc-per-node=gpu train.py", 0),
        ("srun torchrun --nproc-per-node", 0),
    ],
)
def test_how_many_ranks_a_command_has(command: str, count: int) -> None:
    env = {"SLURM_TASKS_PER_NODE": "1(x2)"}
    assert rank_count(env, ["worker-0", "worker-1"], command.split()) == count
    assert rank_count({}, ["worker-0", "worker-1"], command.split()) == 0
