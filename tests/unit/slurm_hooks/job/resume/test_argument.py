"""The checkpoint in the command line, and its path in a container."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.resume.argument import (
    PathMap,
    filled,
    mounts_in,
    parse_pair,
    refusal,
    starts_container,
)
from slurm_hooks.job.resume.environment import child_environment

CHOSEN = Checkpoint(
    path=Path("/mnt/c/iter_0000100"), framework="megatron-dist", step=100, changed_at=0.0
)
NOWHERE = PathMap()


@pytest.mark.parametrize(
    ("argv", "with_one", "without"),
    [
        (["t", "--resume", "{resume}"], ["t", "--resume", "/mnt/c/iter_0000100"], ["t"]),
        (
            ["t", "--resume={resume}", "-v"],
            ["t", "--resume=/mnt/c/iter_0000100", "-v"],
            ["t", "-v"],
        ),
        (["t", "+ckpt={resume}", "a=1"], ["t", "+ckpt=/mnt/c/iter_0000100", "a=1"], ["t", "a=1"]),
        (
            ["t", "--load", "{resume_parent}", "--ckpt-step", "{resume_step}"],
            ["t", "--load", "/mnt/c", "--ckpt-step", "100"],
            ["t"],
        ),
        (["t", "--tag={resume_name}"], ["t", "--tag=iter_0000100"], ["t"]),
        (["srun", "--", "{resume}"], ["srun", "--", "/mnt/c/iter_0000100"], ["srun", "--"]),
        (["t", "{other}", "{}"], ["t", "{other}", "{}"], ["t", "{other}", "{}"]),
    ],
)
def test_the_argument_is_filled_or_left_out(
    argv: list[str], with_one: list[str], without: list[str]
) -> None:
    assert filled(argv, CHOSEN, NOWHERE) == with_one
    assert filled(argv, None, NOWHERE) == without


def test_an_unknown_step_is_left_out() -> None:
    last = Checkpoint(path=Path("/c/last.pt"), framework="torch", step=None, changed_at=0.0)
    assert filled(["t", "--at", "{resume_step}", "{resume}"], last, NOWHERE) == ["t", "/c/last.pt"]


@pytest.mark.parametrize(
    "word", ["python t.py --resume {resume}", "x;{resume}", "$({resume})", "'{resume}'"]
)
def test_a_path_never_goes_into_a_shells_text(word: str) -> None:
    assert "$HOLDFAST_RESUME_FROM" in refusal(["bash", "-c", word])
    assert not refusal(["bash", "-c", "echo hello; echo {other}"])


def test_the_command_itself_is_no_placeholder() -> None:
    assert refusal(["{resume}"])


@pytest.mark.parametrize(
    "option",
    [
        ["--container-mounts=/data:/data,/mnt:/workspace:ro+rprivate"],
        ["--container-mounts", "/mnt:/workspace,/home"],
    ],
)
def test_pyxis_mounts_map_the_path(option: list[str]) -> None:
    argv = ["srun", "--container-image=pytorch", *option, "train", "{resume}"]
    assert starts_container(argv)
    paths = mounts_in(argv)
    assert filled(argv, CHOSEN, paths)[-1] == "/workspace/c/iter_0000100"
    child = child_environment({}, Choice(chosen=CHOSEN), 1, Path("/mnt/c/.holdfast/j"), paths)
    assert child["HOLDFAST_RESUME_FROM"] == "/workspace/c/iter_0000100"
    assert child["HOLDFAST_JOURNAL"] == "/mnt/c/.holdfast/j"  # by it the agent knows the tasks


def test_the_longest_mount_counts_and_names_are_compared_as_a_whole() -> None:
    paths = mounts_in(["srun", "--container-mounts=/mnt:/a,/mnt/c:/b,/mnt/c/iter:/wrong"])
    assert paths.inside(PurePosixPath("/mnt/c/iter_0000100")) == PurePosixPath("/b/iter_0000100")
    assert paths.inside(PurePosixPath("/mnt2/c")) == PurePosixPath("/mnt2/c")
    assert not paths.covers(PurePosixPath("/mnt2/c"))


@pytest.mark.parametrize("text", ["", "relative:/a", "/a:relative", ":"])
def test_a_pair_has_absolute_paths(text: str) -> None:
    assert parse_pair(text) is None
