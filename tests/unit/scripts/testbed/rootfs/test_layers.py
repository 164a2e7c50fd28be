"""A layer is complete or absent."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from testbed.rootfs.layers import building, layer
from testbed.running_box import RunningBox
from testbed.shape import Shape


@pytest.fixture(autouse=True)
def _own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not use the cache and the boxes of this machine, which may belong to root."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_BOXES", str(tmp_path / "boxes"))


def test_a_folder_appears_only_when_complete(tmp_path: Path) -> None:
    final = tmp_path / "f"
    with building(final) as part:
        (part / "x").write_text("x")
        assert not final.exists()
    assert (final / "x").read_text() == "x"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "f"]


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with building(tmp_path / "f") as part:
            (part / "x").write_text("x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_an_incomplete_build_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "f.part").mkdir()
    (tmp_path / "f.part/torn").touch()
    with building(tmp_path / "f") as part:
        (part / "x").touch()
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["x"]


def test_the_same_content_is_the_same_layer() -> None:
    first = layer("k", {}, {"a/b": "1"}, links={"a/c": "/b"})
    assert layer("k", {}, {"a/b": "1"}, links={"a/c": "/b"}) == first
    assert layer("k", {}, {"a/b": "2"}, links={"a/c": "/b"}) != first
    assert layer("k", {}, {"a/b": "1"}, links={"a/c": "/d"}) != first
    assert (first / "a/b").read_text() == "1"
    assert str((first / "a/c").readlink()) == "/b"


def test_only_programs_are_executable() -> None:
    made = layer("k", {}, {"hook": "#!/bin/sh\n", "data": "x"})
    assert (made / "hook").stat().st_mode & 0o777 == 0o755
    assert (made / "data").stat().st_mode & 0o777 == 0o644


def test_old_layers_are_removed_unless_a_box_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [layer("k", {}, {"n": str(number)}) for number in range(20)]
    assert all(path.exists() for path in made), "none is an hour old"
    for age, path in enumerate(reversed(made)):
        os.utime(path, (time.time() - 7200 - age,) * 2)
    shape = Shape(name="b", nodes=1, slurm="24.11", root="/r", layers=(str(made[0]),))
    box = RunningBox(folder=tmp_path, shape=shape, pid=1, started=1)
    monkeypatch.setattr(RunningBox, "all", lambda: [box])
    made.append(layer("k", {}, {"n": "new"}))
    assert [path for path in made if path.exists()] == [made[0], *made[-12:]]
