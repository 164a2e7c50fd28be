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


class Setup:
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
def setup(tmp_path: Path) -> Iterator[Setup]:
    made = Setup(tmp_path)
    yield made
    for one in made.made:
        one.close(wait_s=0)


def test_recorded_events_are_written_with_node_and_boot(setup: Setup) -> None:
    setup.recorder.note(
        "drained", code="XID79", gpu=3, gpu_uuid="GPU-3", detail="two\n lines", by=1
    )
    setup.recorder.note("returned_to_service", t=12.5, serial=None)
    setup.until(lambda: setup.recorder.pending == 0)
    back, drained = setup.events()
    assert (back.t, back.event, back.serial) == (12.5, "returned_to_service", "")
    assert (drained.node, drained.boot_id, drained.gpu) == ("w", "boot-1", 3)
    assert (drained.code, drained.detail, drained.facts) == ("XID79", "two lines", {"by": 1})
    assert setup.recorder.noted == {"drained": 1, "returned_to_service": 1}
    assert not setup.spool.exists()


def test_recording_is_cheap_and_starts_no_process(setup: Setup) -> None:
    for number in range(500):
        setup.recorder.note("x", number=number)
    assert setup.recorder.workers == []
    setup.until(lambda: setup.recorder.pending == 0)
    assert [event.facts["number"] for event in setup.events()] == list(range(500))


def test_a_folder_that_cannot_be_written_loses_nothing(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_RETRY_S", (0.02, 0.05))
    setup.folder.parent.mkdir(exist_ok=True)
    setup.folder.write_text("a file where the folder should be")
    setup.recorder.note("drained")
    setup.until(lambda: setup.recorder.failures >= 2)
    assert setup.spool.exists(), "kept on the node's own disk"
    setup.folder.unlink()
    setup.until(lambda: setup.recorder.pending == 0)
    assert [event.event for event in setup.events()] == ["drained"]
    assert not setup.spool.exists()


def test_the_next_agent_writes_what_this_one_could_not(setup: Setup) -> None:
    setup.folder.write_text("in the way")
    setup.recorder.note("drained", code="XID79")
    setup.recorder.close()
    setup.folder.unlink()
    after = setup.new()
    assert after.pending == 1
    setup.until(lambda: after.pending == 0, after)
    assert [event.code for event in setup.events()] == ["XID79"]
    assert not setup.spool.exists()


def test_an_incomplete_spool_gives_its_complete_lines(setup: Setup) -> None:
    setup.spool.parent.mkdir()
    setup.spool.write_bytes(b'{"t": 1, "event": "a"}\n{"t": 2, "eve\n\xff\n{"t": 3, "event": "c"}')
    after = setup.new()
    setup.until(lambda: after.pending == 0, after)
    assert [event.event for event in setup.events()] == ["a"]


def test_a_hung_worker_delays_nothing(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_DEADLINE_S", 0.1)
    monkeypatch.setattr(recorder, "_RETRY_S", (0.02, 0.05))
    real = store.append
    hang = setup.spool.with_name("hang")
    hang.parent.mkdir()
    hang.touch()

    def slow(folder: Path, node: str, lines: bytes, *, max_bytes: int) -> None:
        if hang.exists():
            signal.pause()
        real(folder, node, lines, max_bytes=max_bytes)

    monkeypatch.setattr(store, "append", slow)
    setup.recorder.note("first")
    setup.until(lambda: setup.recorder.failures == 1)
    began = time.monotonic()
    for _ in range(50):
        setup.recorder.note("more")
        setup.recorder.turn(time.monotonic())
    assert time.monotonic() - began < 20, "the worker hangs for ever"
    hang.unlink()
    setup.until(lambda: setup.recorder.pending == 0)
    assert len(setup.events()) == 51


def test_waiting_events_are_limited_and_the_loss_is_recorded(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_PENDING", 10)
    for number in range(15):
        setup.recorder.note("x", number=number)
    assert setup.recorder.pending == 10
    setup.until(lambda: setup.recorder.pending == 0)
    events = setup.events()
    lost = [event.facts["count"] for event in events if event.event == "events_lost"]
    assert lost == [5]
    assert [event.facts["number"] for event in events if event.event == "x"] == list(range(5, 15))


def test_a_line_that_is_too_long_is_marked(setup: Setup) -> None:
    setup.recorder.note("x", code="C", blob="y" * 100_000, detail="d" * 2000)
    setup.until(lambda: setup.recorder.pending == 0)
    (event,) = setup.events()
    assert event.facts["too_long"] > 100_000
    assert (event.code, len(event.detail)) == ("C", 500)


def test_closing_writes_the_last_events_and_leaves_no_child(setup: Setup) -> None:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    before = children.read_text().split()
    setup.recorder.note("agent_ended")
    setup.recorder.close(wait_s=20)
    assert [event.event for event in setup.events()] == ["agent_ended"]
    setup.until(lambda: set(children.read_text().split()) <= set(before))
