"""Which attempts in the journal are newer."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from slurm_hooks.job.fence.newer import JournalReader, Newer, Run


def _attempt(number: int, restarts: int, start: float = 10.0) -> dict[str, Any]:
    return {"event": "attempt", "attempt": number, "restarts": restarts, "job_start": start}


def _ended(number: int) -> dict[str, Any]:
    return {"event": "step_end", "attempt": number}


def _newer(attempt: int, run: Run, *events: dict[str, Any]) -> int | None:
    newer = Newer(attempt, run)
    newer.take(events)
    return newer.event["attempt"] if newer.event else None


FIRST = Run(0, 10.0)


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([_attempt(1, 0)], None),
        ([_attempt(1, 0), _attempt(2, 1, 50.0)], 2),
        ([_attempt(1, 0), _attempt(1, 1, 50.0)], 1),  # the history began anew
        ([_attempt(1, 0), _ended(1), _attempt(2, 0)], 2),
        ([_attempt(1, 0), _attempt(2, 0)], None),  # of another launcher in the same script
        ([_attempt(4, 3, 2.0), _attempt(1, 0)], None),  # an earlier job of the same number
        ([_attempt(1, 0), _attempt(1, 0, 60.0)], 1),  # slurmctld has forgotten that start
        ([_attempt(2, 1, 50.0), _attempt(1, 0)], 2),
        ([_attempt(1, 0), {"event": "attempt", "attempt": "2", "restarts": 9}], None),
        ([_attempt(1, 0), {"event": "attempt", "attempt": 2, "restarts": True}], None),
    ],
)
def test_newer(events: list[dict[str, Any]], found: int | None) -> None:
    assert _newer(1, FIRST, *events) == found


def test_a_launcher_that_is_cut_off_and_counts_on_is_not_newer() -> None:
    assert _newer(2, Run(1, 50.0), _attempt(2, 1, 50.0), _attempt(3, 0)) is None


def _reader(path: Path, attempt: int = 1, run: Run = FIRST) -> JournalReader:
    return JournalReader(lambda: path.open("rb"), attempt, run)


def _append(path: Path, *events: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def test_the_journal_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    _append(path, _attempt(1, 0), {"event": "checkpoint"})
    reader = _reader(path)
    assert reader.look() is None
    line = json.dumps(_attempt(2, 1, 50.0))
    with path.open("a") as file:
        file.write(line[:20])
    assert reader.look() is None, "half a line"
    with path.open("a") as file:
        file.write(line[20:] + "\n")
    found = reader.look()
    assert found is not None
    assert found["attempt"] == 2


def test_an_entry_that_could_not_be_written_hides_no_newer_one(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    _append(path, _attempt(3, 2, 5.0))
    reader = _reader(path, run=Run(0, 0.0))
    assert reader.look() is None
    _append(path, _attempt(1, 1, 20.0))
    assert reader.look() is not None


def test_a_journal_that_was_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    _append(path, _attempt(1, 0), *[{"event": "checkpoint"}] * 50)
    reader = _reader(path)
    assert reader.look() is None
    path.unlink()
    _append(path, _attempt(2, 1, 50.0))
    assert reader.look() is not None


def test_a_large_journal_is_read_from_near_its_end(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    filler = json.dumps({"event": "evidence", "text": "x" * 4000}) + "\n"
    path.write_text(json.dumps(_attempt(1, 0)) + "\n" + filler * 2500)
    reader = _reader(path)
    assert reader.look() is None
    _append(path, _attempt(2, 1, 50.0))
    assert reader.look() is not None


def test_one_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        _reader(tmp_path / "none").look()


def test_a_journal_that_another_user_has_put_there_ends_nothing(tmp_path: Path) -> None:
    """Members of a project may share the folder."""
    if os.geteuid():
        pytest.skip("needs root")
    path = tmp_path / "journal"
    _append(path, _attempt(1, 0))
    reader = _reader(path)
    assert reader.look() is None
    path.unlink()
    _append(path, _attempt(1, 0), _attempt(2, 1, 50.0))
    os.chown(path, 61_250, 61_250)
    with pytest.raises(OSError, match="another user"):
        reader.look()
    os.chown(path, 0, 0)
    assert reader.look() is not None


def test_an_entry_of_many_objects_takes_little_memory(tmp_path: Path) -> None:
    """A worker shares the agent's limit of memory, and has a reader for each attempt."""
    path = tmp_path / "journal"
    _append(path, _attempt(1, 0), {**_attempt(2, 1, 50.0), "nodes": [{}] * 200_000})
    reader = _reader(path)
    tracemalloc.start()
    try:
        assert reader.look() is not None
        assert tracemalloc.get_traced_memory()[0] < 4 << 20
    finally:
        tracemalloc.stop()
