from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.adapters.state_file import forget, read_state, write_atomic, write_state


def test_written_values_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "drain.json"
    write_state(path, {"reason": "é", "at": 1.5}, version=1)
    assert read_state(path, version=1) == ({"reason": "é", "at": 1.5}, None)
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_file_is_no_problem(tmp_path: Path) -> None:
    assert read_state(tmp_path / "none", version=1) == (None, None)
    assert read_state(tmp_path / "none" / "deeper", version=1) == (None, None)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"version": 1, "a', b"\xff\xfe", b"[]", b"null", b"7", b'{"a": 1}', b"[" * 99999],
)
def test_garbage_is_one_clear_line_and_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "drain.json"
    path.write_bytes(content)
    value, problem = read_state(path, version=1)
    assert value is None
    assert problem is not None
    assert problem.startswith(str(path))
    assert "\n" not in problem
    assert path.read_bytes() == content  # left for a person to look at


def test_another_version_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write_state(path, {"a": 1}, version=2)
    value, problem = read_state(path, version=1)
    assert value is None
    assert problem is not None
    assert "version 2, expected 1" in problem


def test_a_folder_in_its_place_is_a_problem(tmp_path: Path) -> None:
    assert read_state(tmp_path, version=1).problem is not None


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "verdict"
    write_atomic(path, "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["verdict"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    """Two processes: one writes big and small documents in turn, one reads all the time."""
    path = tmp_path / "state"
    write_state(path, {"fill": ""}, version=1)
    child = os.fork()
    if child == 0:
        for number in range(300):
            document = {"version": 1, "fill": "x" * (number % 2 * 50_000)}
            write_atomic(path, json.dumps(document), durable=False)
        os._exit(0)
    problems = set()
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        problems.add(read_state(path, version=1).problem)
    assert problems <= {None}


def test_forget_is_idempotent(tmp_path: Path) -> None:
    path = tmp_path / "drain.json"
    write_state(path, {}, version=1)
    forget(path)
    forget(path)
    assert not path.exists()
