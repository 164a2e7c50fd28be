"""Files that killed runs left behind are removed; files in use stay."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from testbed.namespaces import enter
from testbed.shape import Shape
from testbed.startup import cleanup

HOURS = 3600.0


@pytest.fixture
def boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_BOXES", str(tmp_path))
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def made(boxes: Path, name: str, pid: int, started: int) -> Path:
    folder = boxes / name
    folder.mkdir()
    shape = Shape(name=name, nodes=1, slurm="24.11", root="/r", layers=())
    (folder / "shape.json").write_text(shape.to_json())
    (folder / "life.json").write_text(json.dumps({"pid": pid, "started": started}))
    (folder / "supervisor.log").touch()
    (boxes / f".{name}.lock").touch()
    return folder


def test_an_ended_box_is_kept_for_an_hour_and_then_removed(boxes: Path) -> None:
    made(boxes, "dead", pid=2**22 - 1, started=1)
    cleanup.sweep(time.time())
    assert names(boxes) == [".dead.lock", "dead"]
    cleanup.sweep(time.time() + 2 * HOURS)
    assert names(boxes) == []


def test_a_running_box_is_never_removed(boxes: Path) -> None:
    started = enter.started_at(os.getpid())
    assert started is not None
    made(boxes, "alive", pid=os.getpid(), started=started)
    cleanup.sweep(time.time() + 2 * HOURS)
    assert "alive" in names(boxes)


def test_an_unused_lock_is_removed_and_a_held_one_stays(boxes: Path) -> None:
    (boxes / ".left.lock").touch()
    with cleanup.only_one("held"):
        cleanup.sweep(time.time() + 2 * HOURS)
        assert names(boxes) == [".held.lock"]
    assert names(boxes) == []


def test_unknown_files_stay(boxes: Path) -> None:
    (boxes / "notes of mine!").touch()
    cleanup.sweep(time.time() + 2 * HOURS)
    assert names(boxes) == ["notes of mine!"]
