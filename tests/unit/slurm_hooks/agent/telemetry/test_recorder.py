"""The recorder with real workers, real files, and folders that do not answer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.history import store
from holdfast.history.event import Event
from slurm_hooks.agent.telemetry import recorder
from slurm_hooks.agent.telemetry.recorder import Recorder


class Desk:
    """A recorder, its folder and its spool; ``new`` is the next agent on the same node."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder, self.spool = tmp_path / "history", tmp_path / "state" / "history.spool"
        self.made: list[Recorder] = []
        self.recorder = self.new()

    def new(self) -> Recorder:
        made = Recorder(self.folder, "w", "boot-1", spool=self.spool, max_bytes=1 << 20)
        self.made.append(made)
        return made

    def events(self) -> list[Event]:
        return store.read(self.folder).events

    def until(self, what: Callable[[], bool], made: Recorder | None = None) -> None:
        began = time.monotonic()
        while not what():
            (made or self.recorder).turn(time.monotonic())
            assert time.monotonic() - began < 20, "it did not happen"
            time.sleep(0.002)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    for one in made.made:
        one.close(wait_s=0)


def test_recorded_events_are_written_with_node_and_boot(desk: Desk) -> None:
    desk.recorder.note("drained", code="XID79", gpu=3, gpu_uuid="GPU-3", detail="two\n lines", by=1)
    desk.recorder.note("given_back", t=12.5, serial=None)
    desk.until(lambda: desk.recorder.pending == 0)
    back, drained = desk.events()
    assert (back.t, back.event, back.serial) == (12.5, "given_back", "")
    assert (drained.node, drained.boot_id, drained.gpu) == ("w", "boot-1", 3)
    assert (drained.code, drained.detail, drained.facts) == ("XID79", "two lines", {"by": 1})
    assert desk.recorder.noted == {"drained": 1, "given_back": 1}
    assert not desk.spool.exists()


def test_recording_is_cheap_and_starts_no_process(desk: Desk) -> None:
    for number in range(500):
        desk.recorder.note("x", number=number)
    assert desk.recorder.workers == []
    desk.until(lambda: desk.recorder.pending == 0)
    assert [event.facts["number"] for event in desk.events()] == list(range(500))


def test_a_folder_that_cannot_be_written_loses_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_RETRY_S", (0.02, 0.05))
    desk.folder.parent.mkdir(exist_ok=True)
    desk.folder.write_text("a file where the folder should be")
    desk.recorder.note("drained")
    desk.until(lambda: desk.recorder.failures >= 2)
    assert desk.spool.exists(), "kept on the node's own disk"
    desk.folder.unlink()
    desk.until(lambda: desk.recorder.pending == 0)
    assert [event.event for event in desk.events()] == ["drained"]
    assert not desk.spool.exists()


def test_the_next_agent_writes_what_this_one_could_not(desk: Desk) -> None:
    desk.folder.write_text("in the way")
    desk.recorder.note("drained", code="XID79")
    desk.recorder.close()
    desk.folder.unlink()
    after = desk.new()
    assert after.pending == 1
    desk.until(lambda: after.pending == 0, after)
    assert [event.code for event in desk.events()] == ["XID79"]
    assert not desk.spool.exists()


def test_an_incomplete_spool_gives_its_complete_lines(desk: Desk) -> None:
    desk.spool.parent.mkdir()
    desk.spool.write_bytes(b'{"t": 1, "event": "a"}\n{"t": 2, "eve\n\xff\n{"t": 3, "event": "c"}')
    after = desk.new()
    desk.until(lambda: after.pending == 0, after)
    assert [event.event for event in desk.events()] == ["a"]


def test_a_hung_worker_delays_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_DEADLINE_S", 0.1)
    monkeypatch.setattr(recorder, "_RETRY_S", (0.02, 0.05))
    real = store.append
    hang = desk.spool.with_name("hang")
    hang.parent.mkdir()
    hang.touch()

    def slow(folder: Path, node: str, lines: bytes, *, max_bytes: int) -> None:
        if hang.exists():
            signal.pause()
        real(folder, node, lines, max_bytes=max_bytes)

    monkeypatch.setattr(store, "append", slow)
    desk.recorder.note("first")
    desk.until(lambda: desk.recorder.failures == 1)
    began = time.monotonic()
    for _ in range(50):
        desk.recorder.note("more")
        desk.recorder.turn(time.monotonic())
    assert time.monotonic() - began < 20, "the worker hangs for ever"
    hang.unlink()
    desk.until(lambda: desk.recorder.pending == 0)
    assert len(desk.events()) == 51


def test_waiting_events_are_limited_and_the_loss_is_recorded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_PENDING", 10)
    for number in range(15):
        desk.recorder.note("x", number=number)
    assert desk.recorder.pending == 10
    desk.until(lambda: desk.recorder.pending == 0)
    events = desk.events()
    lost = [event.facts["count"] for event in events if event.event == "events_lost"]
    assert lost == [5]
    assert [event.facts["number"] for event in events if event.event == "x"] == list(range(5, 15))


def test_a_line_that_is_too_long_is_marked(desk: Desk) -> None:
    desk.recorder.note("x", code="C", blob="y" * 100_000, detail="d" * 2000)
    desk.until(lambda: desk.recorder.pending == 0)
    (event,) = desk.events()
    assert event.facts["too_long"] > 100_000
    assert (event.code, len(event.detail)) == ("C", 500)


def test_closing_writes_the_last_events_and_leaves_no_child(desk: Desk) -> None:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    before = children.read_text().split()
    desk.recorder.note("agent_ended")
    desk.recorder.close(wait_s=20)
    assert [event.event for event in desk.events()] == ["agent_ended"]
    desk.until(lambda: set(children.read_text().split()) <= set(before))
