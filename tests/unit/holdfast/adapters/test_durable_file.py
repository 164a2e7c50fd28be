"""A record survives full disks, read-only disks and a kill in between."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.adapters import durable_file
from holdfast.adapters.durable_file import DurableFile

VALUE = {"reason": "é", "at": 1.5}
LATER = {"reason": "later"}


@pytest.fixture
def kept(tmp_path: Path) -> DurableFile:
    return DurableFile(tmp_path / "state/drain.json", tmp_path / "run/drain.json", version=1)


def blocked(_write: Callable[[], None]) -> str:
    return "No space left on device"


def test_the_disk_alone_has_it_where_it_takes_it(kept: DurableFile) -> None:
    assert kept.save(VALUE) == ""
    assert not kept.unwritten
    assert kept.load() == (VALUE, None)
    assert kept.save(None) == ""
    assert kept.load() == (None, None)


def test_memory_has_it_where_the_disk_does_not(kept: DurableFile) -> None:
    kept.save(VALUE)
    assert kept.save(LATER, blocked) == "No space left on device"
    again = DurableFile(kept.disk, kept.memory, version=1)  # the agent after this one
    assert again.load() == (LATER, None)
    assert again.memory.stat().st_mode & 0o777 == 0o600
    assert again.settle() == ""
    assert not again.unwritten
    assert again.load() == (LATER, None)


def test_a_removed_value_stays_removed_while_the_disk_has_it(kept: DurableFile) -> None:
    kept.save(VALUE)
    kept.save(None, blocked)
    assert DurableFile(kept.disk, kept.memory, version=1).load() == (None, None)
    kept.settle()
    assert not kept.disk.exists()


def test_without_disk_and_memory_one_line_is_returned(kept: DurableFile, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    (tmp_path / "run").write_text("no folder")
    assert "File exists" in kept.save(VALUE) or "Not a directory" in kept.save(VALUE)
    assert kept.load().value is None


def test_a_reserved_file_needs_no_new_file(
    kept: DurableFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.set_aside()

    def full(*_args: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable_file, "write_atomic", full)
    for value in (VALUE, LATER, None, VALUE, None, LATER, VALUE, LATER):
        assert kept.save(value) == ""
        kept.memory.unlink(missing_ok=True)
        assert kept.load().value == value


def test_a_death_between_the_two_names_leaves_the_old_content(
    kept: DurableFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.set_aside()
    kept.save(VALUE)

    def dies(*_args: object) -> None:
        raise OSError(5, "dead")

    with monkeypatch.context() as during:
        during.setattr(os, "replace", dies)
        during.setattr(DurableFile, "hand_over", lambda _self, _value: "")
        assert kept.save(LATER) != ""
    assert kept.load().value == VALUE
    for value in (LATER, VALUE, LATER):
        assert kept.save(value) == ""
        assert kept.load().value == value
