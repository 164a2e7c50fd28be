"""The token with which commands ask Slurm: the bridge's, where its file can be read."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from holdfast.cli import site_config
from holdfast.errors import CommandError


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration whose scontrol writes down the token that it was given."""
    monkeypatch.delenv("SLURM_JWT", raising=False)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\necho "token=$SLURM_JWT" >"${0%/*}/seen"\n')
    scontrol.chmod(0o755)
    return configuration(tmp_path, f"slurm_token_file: {tmp_path}/token")


def configuration(folder: Path, bridge: str) -> Path:
    path = folder / "holdfast.yaml"
    path.write_text(f"slurm: {{bin: {folder}}}\nbridge: {{{bridge}}}\n")
    return path


def token(path: Path) -> str:
    with contextlib.suppress(CommandError):
        site_config.load(path).slurm().requeue(7)
    return (path.parent / "seen").read_text().strip()


def test_a_command_in_the_bridges_pod_uses_the_bridges_token(printed: Path) -> None:
    (printed.parent / "token").write_text("abc\n")
    assert token(printed) == "token=abc"


def test_a_token_that_cannot_be_read_stops_no_command(printed: Path) -> None:
    assert token(printed) == "token="


def test_the_users_own_token_counts(printed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (printed.parent / "token").write_text("abc\n")
    monkeypatch.setenv("SLURM_JWT", "own")
    assert token(printed) == "token=own"


def test_a_section_of_the_bridge_with_a_mistake_stops_no_command(printed: Path) -> None:
    (printed.parent / "token").write_text("abc\n")
    assert token(configuration(printed.parent, "cordon: maybe")) == "token="
