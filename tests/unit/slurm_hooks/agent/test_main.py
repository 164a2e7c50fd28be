"""``holdfast agent`` on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import main

ROOT = Path(__file__).parents[4]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "holdfast.yaml"
    path.write_text(f"paths: {{run: {tmp_path}/run, state: {tmp_path}/state}}\n")
    return path


def _refuse(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("where", ["mkdir", "access"])
def test_as_a_user_it_is_a_usage_error_in_one_line(
    where: str, config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if where == "mkdir":
        monkeypatch.setattr(Path, "mkdir", _refuse)
    else:
        monkeypatch.setattr(os, "access", lambda *_: False)
    assert main(["agent", "--config", str(config)]) == 2
    error = capfd.readouterr().err
    assert error.startswith(
        f"holdfast agent: cannot write to {config.parent}/run; run the agent as root"
    )
    assert error.count("\n") == 1
    assert not (config.parent / "state").exists()


def test_it_loads_nothing_that_only_a_worker_needs() -> None:
    code = "import slurm_hooks.agent.main, sys; print(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    loaded = set(run.stdout.split())
    assert "slurm_hooks.agent.loop" in loaded
    assert not {"ssl", "http.client", "urllib.request", "email", "statistics", "pynvml"} & loaded
