"""``holdfast inspect`` with an invalid configuration: the defaults, and each problem once."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from holdfast.cli.main import main

DATA = Path(__file__).parents[3] / "data" / "slurm" / "24.11"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may reserve nodes")
def test_an_invalid_configuration_is_reported_once_and_the_defaults_apply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shlex.quote(str(DATA))
    for name in ("scontrol", "sinfo"):
        (tmp_path / name).write_text(
            f'#!/bin/sh\ncase "$*" in *reservation*) echo "No reservations in the system" ;;\n'
            f"*--json) cat {data}/nodes.json ;; *nodes*) cat {data}/nodes.txt ;;\n"
            f"*) cat {data}/sinfo.txt ;; esac\n"
        )
        (tmp_path / name).chmod(0o755)
    config = tmp_path / "holdfast.yaml"
    state = f"paths: {{state: {tmp_path}/state}}\n"
    config.write_text(f"active: {{inspect: 7}}\nnode: {{budget: {{max_nodes: x}}}}\n{state}")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert main(["inspect", "n4"]) == 2
    captured = capsys.readouterr()
    problems = [line for line in captured.err.splitlines() if "using defaults" in line]
    assert len(problems) == len(set(problems)) == 2, captured.err
    assert "not tested" in captured.out
    assert len(list((tmp_path / "state/inspections").iterdir())) == 2


def test_a_kill_switch_holds_while_the_configuration_is_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast.yaml").write_text("active: {inspect: 7}\n")
    (tmp_path / "off").mkdir()
    (tmp_path / "off/all").touch()
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "holdfast.yaml"))
    assert main(["inspect"]) == 2
    assert "every action is switched off" in capsys.readouterr().err
