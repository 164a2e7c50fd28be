"""A write in a process of its own: its answer, and the processes that it leaves."""

from __future__ import annotations

import os
import time
from pathlib import Path

from slurm_hooks.worker.bounded_write import BoundedWrite


def test_many_writes_leave_no_zombies(tmp_path: Path) -> None:
    before = _children()
    write = BoundedWrite(tmp_path / "stuck.json")
    for number in range(20):
        assert write(lambda number=number: _write(tmp_path / "kept", number)) == ""  # type: ignore[misc]
    assert (tmp_path / "kept").read_text() == "19"
    _assert_collected(_children() - before, write, tmp_path)


def test_the_disks_error_is_the_answer(tmp_path: Path) -> None:
    write = BoundedWrite(tmp_path / "stuck.json")
    assert "No such file" in write(lambda: _write(tmp_path / "none" / "kept", 1))


def test_a_hung_write_is_abandoned_and_reaped_by_the_next(tmp_path: Path) -> None:
    before = _children()
    write = BoundedWrite(tmp_path / "stuck.json")
    os.mkfifo(tmp_path / "pipe")
    assert write(lambda: _write(tmp_path / "pipe", 1)) == "the disk does not answer"
    assert write(lambda: _write(tmp_path / "kept", 2)) == ""
    _assert_collected(_children() - before, write, tmp_path)


def _assert_collected(left: set[str], write: BoundedWrite, folder: Path) -> None:
    """The next writes collect the processes that the earlier ones left. The fork of a large process,
    as this one is after thousands of tests, takes longer to exit than its own write waits."""
    until = time.monotonic() + 60
    while left & _children() and time.monotonic() < until:
        write(lambda: _write(folder / "kept", 3))
    assert not left & _children()


def _children() -> set[str]:
    """The processes of this one that have not been collected; other tests in this worker may have
    left some."""
    return set(Path("/proc/thread-self/children").read_text().split())


def _write(path: Path, number: int) -> None:
    path.write_text(str(number))
