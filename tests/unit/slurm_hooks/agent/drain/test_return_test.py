"""The test before a node's return, from the agent's side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.drain.return_test import ReturnTest
from slurm_hooks.node.process import process_state
from slurm_hooks.settings import settings


def test_an_aborted_test_leaves_no_zombie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "pid"

    def endless(_: ReturnTest) -> Callable[[Any], Iterator[Any]]:
        def serve(_: Any) -> Iterator[Any]:
            told.write_text(Path("/proc/self/stat").read_text().split()[0])
            time.sleep(60)
            yield None

        return serve

    monkeypatch.setattr(ReturnTest, "_open", endless)
    return_test = ReturnTest(SlurmName("w"), settings.load(tmp_path / "none.yaml"))
    return_test.start("XID79", "holdfast:XID79: x")
    until = time.monotonic() + 10
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < until
        return_test.turn(time.monotonic())
    return_test.drop()
    while process_state(int(told.read_text())) is not None:
        assert time.monotonic() < until, process_state(int(told.read_text()))
        assert return_test.turn(time.monotonic()) is None
    assert not return_test.busy
