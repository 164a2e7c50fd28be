"""A record stays where the disk takes nothing: over full disks, read-only ones and deaths in between."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.adapters import durable_file
from holdfast.adapters.durable_file import DurableFile

SAID = {"reason": "é", "at": 1.5}
LATER = {"reason": "later"}


@pytest.fixture
def kept(tmp_path: Path) -> DurableFile:
    return DurableFile(tmp_path / "state/drain.json", tmp_path / "run/drain.json", version=1)


def blocked(_write: Callable[[], None]) -> str:
    return "No space left on device"


def test_the_disk_alone_has_it_where_it_takes_it(kept: DurableFile) -> None:
    assert kept.save(SAID) == ""
    assert not kept.unwritten
    assert kept.load() == (SAID, None)
    assert kept.save(None) == ""
    assert kept.load() == (None, None)


def test_memory_has_it_where_the_disk_does_not(kept: DurableFile) -> None:
    kept.save(SAID)
    assert kept.save(LATER, blocked) == "No space left on device"
    again = DurableFile(kept.disk, kept.memory, version=1)  # the agent after this one
    assert again.load() == (LATER, None)
    assert again.memory.stat().st_mode & 0o777 == 0o600
    assert again.settle() == ""
    assert not again.unwritten
    assert again.load() == (LATER, None)


def test_what_was_forgotten_stays_so_although_the_disk_still_has_it(kept: DurableFile) -> None:
    kept.save(SAID)
    kept.save(None, blocked)
    assert DurableFile(kept.disk, kept.memory, version=1).load() == (None, None)
    kept.settle()
    assert not kept.disk.exists()


def test_neither_disk_nor_memory_is_a_line_and_no_error(kept: DurableFile, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    (tmp_path / "run").write_text("no folder")
    assert "File exists" in kept.save(SAID) or "Not a directory" in kept.save(SAID)
    assert kept.load().value is None


def test_room_that_was_set_aside_needs_no_new_file(
    kept: DurableFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.set_aside()

    def full(*_args: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable_file, "write_atomic", full)
    for said in (SAID, LATER, None, SAID, None, LATER, SAID, LATER):
        assert kept.save(said) == ""
        kept.memory.unlink(missing_ok=True)
        assert kept.load().value == said


def test_a_death_between_the_two_names_leaves_the_old_content(
    kept: DurableFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.set_aside()
    kept.save(SAID)

    def dies(*_args: object) -> None:
        raise OSError(5, "dead")

    with monkeypatch.context() as during:
        during.setattr(os, "replace", dies)
        during.setattr(DurableFile, "hand_over", lambda _self, _value: "")
        assert kept.save(LATER) != ""
    assert kept.load().value == SAID
    for said in (LATER, SAID, LATER):
        assert kept.save(said) == ""
        assert kept.load().value == said
