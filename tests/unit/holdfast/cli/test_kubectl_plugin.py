"""``kubectl holdfast``: the command line of kubectl, and that kubectl finds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import kubectl_plugin


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["status"], "kubectl -n holdfast exec -i deploy/holdfast-bridge -- holdfast status"),
        (
            ["-n", "slurm", "--context=prod", "explain", "worker-1", "--json"],
            "kubectl -n slurm --context=prod exec -i deploy/holdfast-bridge -- "
            "holdfast explain worker-1 --json",
        ),
        (["page"], "kubectl -n holdfast port-forward deploy/holdfast-bridge 9647:9647"),
        (
            ["--namespace=a", "page", "8080"],
            "kubectl --namespace=a port-forward deploy/holdfast-bridge 8080:9647",
        ),
    ],
)
def test_the_command_line_of_kubectl(words: list[str], expected: str) -> None:
    options, rest = kubectl_plugin.split(words)
    assert kubectl_plugin.command(options, rest, terminal=False) == expected.split()


def test_a_terminal_is_passed_on() -> None:
    assert "-t" in kubectl_plugin.command([], ["status", "--watch"], terminal=True)


def test_it_runs_kubectl_in_its_place_and_keeps_its_status(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    program.chmod(0o755)
    argv = [sys.executable, "-m", "holdfast.cli.kubectl_plugin", "explain", "a b; $(id)"]
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert done.stdout.splitlines()[-3:] == ["holdfast", "explain", "a b; $(id)"]


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ([], 2, "usage: kubectl holdfast"),
        (["--help"], 0, "usage: kubectl holdfast"),
        (["page", "x"], 2, "page takes one port"),
    ],
)
def test_help_and_wrong_use(
    words: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kubectl_plugin.main(words) == status
    shown = capsys.readouterr()
    assert text in shown.out + shown.err


def test_without_kubectl_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kubectl_plugin.main(["status"]) == 2
    assert capsys.readouterr().err == "kubectl holdfast: kubectl: No such file or directory\n"
