"""The options of scripts/hold_against."""

from __future__ import annotations

from pathlib import Path

import pytest
from charts.__main__ import main


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--helm", "/no/such/helm"], "/no/such/helm not found"),
        (["--helm", "/bin/sh", "--manager", "/no/such/manager"], "/no/such/manager not found"),
        (["--helm", "/bin/sh", "--only", "manager"], "nothing to do: --only manager of soperator"),
        (["--helm", "/bin/sh", "--only", "beside"], "(with --beside?)"),
        (["--helm", "/bin/sh", "--beside", "/no/such/program"], "/no/such/program not found"),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["soperator", str(tmp_path), *options]) == 2
    assert said in capsys.readouterr().err
