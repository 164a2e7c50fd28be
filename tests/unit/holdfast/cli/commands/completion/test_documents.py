"""Completion and manual pages: from the parsers of the commands, and read by bash and man."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.cli.commands.completion.parsers import command_lines
from holdfast.cli.commands.render import TABLE, render_text
from holdfast.cli.main import COMMANDS
from holdfast.errors import UsageError
from slurm_hooks import checks


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word, as the user types ``holdfast WORDS``."""
    script = folder / "completion.bash"
    script.write_text(render_text("bash-completion"))
    line = ["holdfast", *words]
    quoted = " ".join(f"'{word}'" for word in line)
    code = (
        f"set -u; . '{script}'; COMP_WORDS=({quoted}); COMP_CWORD={len(line) - 1}; _holdfast; "
        'printf "%s\\n" "${COMPREPLY[@]-}"'
    )
    env = {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", code], capture_output=True, text=True, check=True, env=env, cwd=folder
    )
    assert done.stderr == ""
    return sorted(filter(None, done.stdout.splitlines()))


def test_every_command_and_every_option_is_offered(tmp_path: Path) -> None:
    assert set(completed(tmp_path, "")) == {*COMMANDS, "--help", "--version"}
    lines = {line.name: line for line in command_lines()}
    assert set(lines) == set(COMMANDS)
    for name in ("explain", "history", "config", "bridge"):
        flags = {flag for one in lines[name].arguments for flag in one.flags}
        assert set(completed(tmp_path, name, "-")) == flags
    assert completed(tmp_path, "history", "--obs") == ["--observed"]
    assert completed(tmp_path, "expl") == ["explain"]


def test_nodes_and_jobs_come_from_slurm(tmp_path: Path) -> None:
    for name, text in (("sinfo", "worker-1\nworker-0\nworker-0"), ("squeue", "17\n18_[1-3]")):
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '%s\\n' '{text}'\n")
        (tmp_path / name).chmod(0o755)
    assert completed(tmp_path, "explain", "") == ["17", "18_[1-3]", "worker-0", "worker-1"]
    assert completed(tmp_path, "nodes", "worker-1") == ["worker-1"]
    assert completed(tmp_path, "history", "w") == ["worker-0", "worker-1"]


def test_without_slurm_there_are_no_names_and_no_error(tmp_path: Path) -> None:
    assert completed(tmp_path, "explain", "w") == []


def test_values_that_the_program_knows_are_offered(tmp_path: Path) -> None:
    assert set(completed(tmp_path, "check", "")) == set(checks.CATALOGUE)
    assert completed(tmp_path, "faults", "XID79") == ["XID79"]
    assert set(completed(tmp_path, "render", "")) == set(TABLE)
    assert "gpu" in completed(tmp_path, "faults", "--class", "")
    assert "gpu_burn" in completed(tmp_path, "inspect", "--check", "gpu")
    assert completed(tmp_path, "config", "") == ["check"]


def test_files_and_folders_and_the_command_of_a_job(tmp_path: Path) -> None:
    (tmp_path / "my run").mkdir()
    (tmp_path / "my.log").touch()
    assert completed(tmp_path, "diagnose", "my") == ["my run", "my.log"]
    assert completed(tmp_path, "run", "--checkpoints", "my") == ["my run"]
    assert "printf" in completed(tmp_path, "run", "--", "printf")


@pytest.mark.parametrize("name", ["", *COMMANDS])
@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_a_manual_page_has_no_error_and_shows_every_option(name: str) -> None:
    page = render_text("man-page", command=name)
    argv = ["groff", "-man", "-Tutf8", "-ww", "-b", "-P-cbou"]
    done = subprocess.run(argv, input=page, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    text = " ".join(done.stdout.replace("\u2010\n", "-").split())
    if not name:
        assert all(command in text for command in COMMANDS)
        return
    line = next(one for one in command_lines() if one.name == name)
    assert f"holdfast-{name} - {line.summary}"[:40] in text
    for argument in line.arguments:
        assert all(flag in text for flag in argument.flags), argument


def test_text_that_looks_like_a_request_stays_text() -> None:
    roff = importlib.import_module("holdfast.render.templates").to_roff
    assert roff(".so /etc/passwd\n'x \\n") == "\\&.so /etc/passwd\n\\&'x \\en"
    assert roff("a-b") == "a\\-b"


def test_a_page_of_no_command_is_refused() -> None:
    with pytest.raises(UsageError, match="man-page: command"):
        render_text("man-page", command="explian")
