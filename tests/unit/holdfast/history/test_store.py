"""The history files: appended, rotated, read back; an invalid line does not affect the others."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters import jsonl
from holdfast.history import store
from holdfast.history.event import Event, of_record

MAX = 1 << 20


def line(t: float, event: str = "drained", **more: object) -> bytes:
    return jsonl.encode({"t": t, "event": event, "node": "w", **more})


def test_appended_events_are_read_oldest_first(tmp_path: Path) -> None:
    store.append(tmp_path / "new", "w", line(2) + line(1), max_bytes=MAX)
    store.append(tmp_path / "new", "x", line(1.5, gpu_uuid="GPU-1"), max_bytes=MAX)
    reading = store.read(tmp_path / "new")
    assert [event.t for event in reading.events] == [1, 1.5, 2]
    assert store.read(tmp_path / "new", ["w"]).events[0].t == 1
    (found,) = store.read(tmp_path / "new", words=["GPU-1"]).events
    assert (found.t, found.gpu_uuid) == (1.5, "GPU-1")


def test_an_incomplete_line_is_counted_once_and_the_next_line_is_whole(tmp_path: Path) -> None:
    path = store.file_of(tmp_path, "w")
    path.write_bytes(line(1) + line(2)[:-9])
    before = path.read_bytes()
    store.append(tmp_path, "w", line(3), max_bytes=MAX)
    assert path.read_bytes().startswith(before), "nothing is rewritten"
    reading = store.read(tmp_path)
    assert [event.t for event in reading.events] == [1, 3]
    assert reading.skipped == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\n",
        b"[1]\n",
        b"null\n",
        b"[" * 100_000 + b"\n",
        b'{"t": NaN, "event": "x"}\n',
        b'{"t": true, "event": "x"}\n',
        b'{"t": 1}\n',
        b'{"t": 1, "event": ""}\n',
        b'{"t": "1", "event": "x"}\n',
    ],
)
def test_garbage_is_skipped_with_a_count(tmp_path: Path, garbage: bytes) -> None:
    store.file_of(tmp_path, "w").write_bytes(line(1) + garbage + line(2))
    reading = store.read(tmp_path)
    assert ([event.t for event in reading.events], reading.skipped) == ([1, 2], 1)


def test_a_repeated_write_counts_once(tmp_path: Path) -> None:
    store.append(tmp_path, "w", line(1) + line(2), max_bytes=MAX)
    store.append(tmp_path, "w", line(1) + line(2) + line(3), max_bytes=MAX)
    assert [event.t for event in store.read(tmp_path).events] == [1, 2, 3]


def test_rotation_bounds_the_folder_and_keeps_the_newest(tmp_path: Path) -> None:
    limit = 64 << 10
    for t in range(3000):
        store.append(tmp_path, "w", line(t, detail="x" * 60), max_bytes=limit)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["w.jsonl", "w.jsonl.1"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= limit
    times = [event.t for event in store.read(tmp_path).events]
    assert times == list(range(int(times[0]), 3000)), "no gap"
    assert len(times) > 200


def test_a_node_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    for name in ("../../etc/passwd", ".hidden", "", "a/b"):
        assert store.file_of(tmp_path, name).parent == tmp_path
        assert not store.file_of(tmp_path, name).name.startswith(".")


def test_an_unreadable_file_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    store.file_of(tmp_path, "v").mkdir()
    store.append(tmp_path, "w", line(1), max_bytes=MAX)
    reading = store.read(tmp_path)
    assert len(reading.events) == 1
    (problem,) = reading.problems
    assert "v.jsonl: cannot be read" in problem
    assert store.read(tmp_path / "none") == store.HistoryLines([])


def test_a_full_disk_is_an_error_and_the_lines_stay_complete(tmp_path: Path) -> None:
    store.append(tmp_path, "w", line(1), max_bytes=MAX)
    path = store.file_of(tmp_path, "w")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 3, before[1]))
    try:
        with pytest.raises(OSError, match="only a part"):
            jsonl.append(path, line(2))
        with pytest.raises(OSError, match="too large"):
            jsonl.append(path, line(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(store.read(tmp_path).events) == 1


def _link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def _second_name(path: Path, secret: Path) -> None:
    path.hardlink_to(secret)


def _pipe(path: Path, secret: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [_link, _second_name, _pipe])
def test_a_file_that_a_user_put_there_is_not_written(
    make: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    """A history that every node writes as user nobody is in a folder that users can write to."""
    secret = tmp_path / "secret"
    secret.write_text("root:x:0:0\n")
    folder = tmp_path / "history"
    folder.mkdir()
    make(store.file_of(folder, "w"), secret)
    with pytest.raises(OSError, match=r"not written|symbolic link"):
        store.append(folder, "w", line(1), max_bytes=MAX)
    assert secret.read_text() == "root:x:0:0\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="makes another user's links")
def test_neither_reader_nor_writer_follows_a_users_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    store.append(real, "w", line(1), max_bytes=MAX)
    folder = tmp_path / "history"
    folder.symlink_to(real)
    assert len(store.read(folder).events) == 1, "root's own link"
    os.lchown(folder, 2002, 2002)
    with pytest.raises(OSError, match="root does not follow"):
        store.append(folder, "w", line(2), max_bytes=MAX)
    reading = store.read(folder, ["w"])
    assert not reading.events
    assert "root does not follow" in reading.problems[0]


def test_a_pipe_among_the_files_does_not_block_the_reader(tmp_path: Path) -> None:
    os.mkfifo(store.file_of(tmp_path, "v"))
    store.append(tmp_path, "w", line(1), max_bytes=MAX)
    reading = store.read(tmp_path)
    assert len(reading.events) == 1
    assert "v.jsonl: cannot be read (not a regular file: a named pipe)" in reading.problems[0]


_TEXT = st.text(max_size=20)
_EVENTS = st.builds(
    Event,
    t=st.floats(0, 4e9),
    event=st.text(min_size=1, max_size=20),
    node=_TEXT,
    boot_id=_TEXT,
    gpu=st.none() | st.integers(0, 63),
    gpu_uuid=_TEXT,
    serial=_TEXT,
    code=_TEXT,
    detail=_TEXT,
    facts=st.dictionaries(st.sampled_from(["count", "nodes", "why"]), st.integers() | _TEXT),
)


@given(_EVENTS)
def test_an_event_is_read_back_unchanged(event: Event) -> None:
    encoded = jsonl.encode(event.record())
    assert encoded.count(b"\n") == 1
    again = of_record(json.loads(encoded))
    assert again is not None
    assert again.record() == event.record()


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    records = jsonl.parse(data.splitlines())
    events = [of_record(record) for record in records.whole]
    assert len(events) + records.malformed <= len(data.splitlines())
