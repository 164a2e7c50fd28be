"""Ten thousand refusals of one kind are ten lines a minute."""

from __future__ import annotations

import io
import json
from datetime import datetime, timezone

import pytest

from holdfast.adapters import log as log_module
from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import BURST, PERIOD_S, LimitedLog


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def refused(log: LimitedLog, node: int) -> None:
    why = f'PATCH /api/v1/nodes/worker-{node}: 403: nodes "worker-{node}" is forbidden'
    log.error("change rejected", node=f"worker-{node}", change="Isolate", why=why)


def test_lines_that_differ_only_in_the_node_are_one_kind() -> None:
    stream, clock = io.StringIO(), Clock()
    log = LimitedLog(Log("bridge", stream), clock)
    for node in range(10_000):
        refused(log, node)
    lines = stream.getvalue().splitlines()
    assert len(lines) == BURST
    assert "are not logged for 60 s" in lines[-1]
    log.error("change rejected", node="worker-1", change="Release", why="403: no")
    assert len(stream.getvalue().splitlines()) == BURST + 1, "another change is another kind"
    clock.now += PERIOD_S
    refused(log, 3)
    assert f"not_logged={10_000 - BURST}" in stream.getvalue().splitlines()[-1]


def test_many_kinds_need_no_more_memory() -> None:
    log = LimitedLog(Log("bridge", io.StringIO()), Clock())
    for number in range(5000):
        log.warning("x" * (number % 1000), why="y" * (number % 7))
    assert len(log._kinds) <= 512


def test_json_lines_have_the_same_content(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    at = datetime(2026, 11, 21, 3, 4, 5, 678000, tzinfo=timezone.utc)
    monkeypatch.setattr(log_module._Format, "line", log_module._Format.line)
    log_module.use_json()
    Log("bridge", stream, lambda: at).warning(
        "change rejected", node="worker-1", why='a "quoted"\nword', wait_s=5.0, level="x", gone=None
    )
    log_module.use_json(on=False)
    assert json.loads(stream.getvalue()) == {
        "time": "2026-11-21T03:04:05.678Z",
        "level": "warning",
        "logger": "bridge",
        "message": "change rejected",
        "node": "worker-1",
        "why": 'a "quoted"\nword',
        "wait_s": 5.0,
        "fact_level": "x",
    }
    Log("bridge", stream, lambda: at).info("plain")
    assert stream.getvalue().endswith("2026-11-21T03:04:05.678Z info bridge: plain\n")
