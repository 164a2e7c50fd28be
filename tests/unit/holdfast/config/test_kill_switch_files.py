from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.kill_switch_files import is_off, switches_off


def test_the_kill_switch_needs_no_readable_configuration(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.yaml"
    path.write_text(": [ not yaml")
    assert switches_off(path) == frozenset()
    (tmp_path / "off").mkdir()
    (tmp_path / "off" / "gpu_xid").touch()
    assert is_off("gpu_xid", path)
    assert not is_off("mounts", path)
    (tmp_path / "off" / "all").touch()
    assert is_off("mounts", path)


def test_a_missing_folder_turns_nothing_off_and_an_odd_one_neither(tmp_path: Path) -> None:
    assert not is_off("gpu_xid", tmp_path / "none" / "holdfast.yaml")
    (tmp_path / "off").write_text("a file, not a folder")
    assert not is_off("gpu_xid", tmp_path / "holdfast.yaml")


def test_a_folder_that_cannot_be_listed_turns_all_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "off").mkdir()

    def denied(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", denied)
    assert is_off("gpu_xid", tmp_path / "holdfast.yaml")
