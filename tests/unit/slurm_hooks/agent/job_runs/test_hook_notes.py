"""The hooks' notes: the agent reads what the sh hook writes, and refuses incomplete notes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from slurm_hooks.agent.job_runs import hook_notes
from slurm_hooks.node import machine

HOOK = Path(__file__).parents[5] / "slurm_hooks" / "hook"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run/notes").mkdir(parents=True)
    (tmp_path / "run/ended").mkdir()
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"  # the slow path, which refuses every node here
    python.write_text("#!/bin/sh\nexit 10\n")
    python.chmod(0o755)
    return tmp_path / "run"


def hook(run: Path, name: str, **env: str) -> subprocess.CompletedProcess[str]:
    full = {
        "HOLDFAST_RUN": str(run),
        "HOLDFAST_HOME": str(run.parent),
        "HOLDFAST_HOOK": name,
        **env,
    }
    return subprocess.run(
        ["/bin/sh", str(HOOK)], env=full, capture_output=True, text=True, check=False
    )


def publish(run: Path, status: str) -> None:
    expires = int(machine.uptime_s()) + 60
    (run / "verdict").write_text(f"{status} {expires} {machine.boot_id()} holdfast/1\n{{}}\n")


JOB = {"SLURM_JOB_ID": "4711", "SLURM_JOB_RESTART_COUNT": "2", "SLURM_JOB_UID": "2001"}


def read_one(run: Path) -> hook_notes.HookNote:
    ((_, found),) = hook_notes.read_all(hook_notes.folder(run))
    assert isinstance(found, hook_notes.HookNote)
    return found


def test_the_prologs_note_reads_back(run: Path) -> None:
    publish(run, "ok")
    before = machine.uptime_s()
    assert hook(run, "prolog", **JOB, SLURM_JOB_GPUS="0,2,5").returncode == 0
    found = read_one(run)
    assert (found.kind, found.job, found.restarts, found.uid) == (hook_notes.START, 4711, 2, 2001)
    assert found.gpus == frozenset({0, 2, 5})
    assert (found.boot_id, found.het_job, found.skip) == (machine.boot_id(), None, False)
    assert before - 0.02 <= found.at_s <= machine.uptime_s()


def test_the_epilogs_note_reads_back(run: Path) -> None:
    publish(run, "ok")
    hook(run, "epilog", **JOB, SLURM_HET_JOB_ID="4700")
    found = read_one(run)
    assert (found.kind, found.job, found.het_job, found.gpus) == (hook_notes.END, 4711, 4700, None)


def test_each_run_of_a_job_has_notes_of_its_own(run: Path) -> None:
    publish(run, "ok")
    for restarts in ("0", "1"):
        hook(run, "prolog", **{**JOB, "SLURM_JOB_RESTART_COUNT": restarts})
        hook(run, "epilog", **{**JOB, "SLURM_JOB_RESTART_COUNT": restarts})
    names = [path.name for path, _ in hook_notes.read_all(hook_notes.folder(run))]
    assert names == ["4711.0.start", "4711.0.end", "4711.1.start", "4711.1.end"]


@pytest.mark.parametrize("status", ["suspect", "blind", "bad"])
def test_a_job_that_python_decides_on_leaves_a_note_too(run: Path, status: str) -> None:
    publish(run, status)
    hook(run, "prolog", **JOB)
    assert read_one(run).job == 4711


@pytest.mark.parametrize(
    "env",
    [
        {"SLURM_JOB_ID": "../../etc/x"},
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "1", "SLURM_JOB_RESTART_COUNT": "../1"},
    ],
)
def test_no_note_is_written_outside_the_folder(run: Path, env: dict[str, str]) -> None:
    publish(run, "ok")
    assert hook(run, "prolog", **env).returncode == 0
    assert list((run / "notes").iterdir()) == []


def test_the_job_starts_even_without_the_folder(run: Path) -> None:
    publish(run, "ok")
    (run / "notes").rmdir()
    result = hook(run, "prolog", **JOB)
    assert (result.returncode, result.stderr) == (0, "")


# --- skip_checks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment", ["skip_checks", "a skip_checks", "x,skip_checks,y", "a;skip_checks"]
)
def test_if_the_site_allows_it_a_job_skips_the_checks(run: Path, comment: str) -> None:
    publish(run, "bad")
    (run / "allow_skip").touch()
    log = run / "agent.w.log"
    log.touch()
    env = {"HOLDFAST_LOG": str(run), "SLURMD_NODENAME": "w"}
    result = hook(run, "prolog", **JOB, **env, SLURM_JOB_COMMENT=comment)
    assert result.returncode == 0
    assert read_one(run).skip
    assert "starts on a bad node: checks skipped by the user" in log.read_text()


@pytest.mark.parametrize("comment", ["", "dont_skip_checks", "skip_checks_please", "SKIP_CHECKS"])
def test_any_other_comment_skips_nothing(run: Path, comment: str) -> None:
    publish(run, "bad")
    (run / "allow_skip").touch()
    assert hook(run, "prolog", **JOB, SLURM_JOB_COMMENT=comment).returncode == 10


def test_if_the_site_does_not_allow_it_the_comment_has_no_effect(run: Path) -> None:
    publish(run, "bad")
    assert hook(run, "prolog", **JOB, SLURM_JOB_COMMENT="skip_checks").returncode == 10
    publish(run, "ok")
    hook(run, "prolog", **JOB, SLURM_JOB_COMMENT="skip_checks")
    assert not read_one(run).skip


# --- invalid notes ------------------------------------------------------------------------------

WHOLE = "holdfast-job/1 start 7 0 12.5 boot 2001 0,1 - - end\n"


def test_a_complete_note_parses() -> None:
    assert hook_notes.parse(WHOLE).gpus == frozenset({0, 1})


@pytest.mark.parametrize("cut", range(len(WHOLE) - 1))
def test_an_incomplete_note_is_invalid(cut: int) -> None:
    if WHOLE[:cut].strip() == WHOLE.strip():
        return
    with pytest.raises(ValueError, match="half-written"):
        hook_notes.parse(WHOLE[:cut])


@pytest.mark.parametrize(
    "line",
    [
        WHOLE.replace("/1", "/2"),
        WHOLE.replace("start", "begin"),
        WHOLE.replace("7", "-7"),
        WHOLE.replace("12.5", "soon"),
        WHOLE.replace("0,1", "all"),
        WHOLE.replace("0,1", "3-1"),
        WHOLE.replace("0,1", "0-99999999"),
        WHOLE.replace("2001", "alice"),
        "end " * 11,
        "\0" * 50,
    ],
)
def test_an_invalid_note_is_reported(line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        hook_notes.parse(line)


def test_a_half_written_note_gives_one_line(run: Path) -> None:
    (run / "notes/7.0.start").write_text(WHOLE[:30])
    ((path, why),) = hook_notes.read_all(hook_notes.folder(run))
    assert why == f"{path}: half-written note"


def test_a_note_that_cannot_be_read_gives_one_line(run: Path) -> None:
    (run / "notes/7.0.start").mkdir()
    ((_, why),) = hook_notes.read_all(hook_notes.folder(run))
    assert isinstance(why, str)
    assert os.linesep not in why


def test_a_range_of_gpus_reads_as_indices() -> None:
    assert hook_notes.gpu_indices("0-2,7") == {0, 1, 2, 7}
