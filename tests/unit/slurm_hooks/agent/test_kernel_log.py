"""The kernel log as a file that is missing, appears, and starts again."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_hooks.agent.kernel_log import KernelLog


def line(number: int) -> str:
    return f"6,{number},{number}000,-;line {number}\n"


def test_it_is_opened_again_and_its_error_is_logged_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kmsg"
    log = KernelLog(path)
    for _ in range(3):
        assert log.read(None, to_end=False) is None
    assert capsys.readouterr().err.count("kernel log unreadable") == 1
    assert log.fd == -1
    assert str(path) in log.problem

    path.write_text(line(1) + line(2))
    new = log.read(1, to_end=False)
    assert new is not None
    assert [record.text for record in new.records] == ["line 2"]
    assert log.problem == ""
    assert log.fd >= 0
    log.close()
    assert log.fd == -1


def test_a_log_that_starts_again_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(line(7) + line(8))
    log = KernelLog(path)
    first = log.read(None, to_end=True)
    path.write_text(line(1))
    second, third = log.read(None, to_end=False), log.read(None, to_end=False)
    assert [new and new.renewed for new in (first, second, third)] == [False, True, False]
    log.close()
