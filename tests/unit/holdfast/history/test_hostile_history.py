"""A history whose folder users can write to: no value of any type ends a reader."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.cli.commands.explain.history import still_open
from holdfast.history import event as names
from holdfast.history import observed, page, subject
from holdfast.history.event import Event, of_record
from holdfast.history.kill_switches import switches_on

NOW = 1_800_000_000.0
_HOSTILE: tuple[Any, ...] = (
    10**400,
    -(10**400),
    1e308,
    float("nan"),
    True,
    None,
    "\x1b[2J\n",
    [],
    {},
    [[1]],
    ["x", 2],
)
_EVENTS = (names.OPENED, names.CLOSED, names.INVENTORY, names.KILL_SWITCHES, names.DRAINED)
_FIELDS = (
    "t",
    "node",
    "gpu",
    "gpu_uuid",
    "code",
    "subject",
    "open_s",
    "mode",
    "on",
    "gpus",
    "action",
)


def _event(**fields: Any) -> Event | None:
    record = {"t": NOW - 60, "event": names.OPENED, "node": "w", "code": "XID79", "mode": "observe"}
    return of_record(json.loads(json.dumps({**record, **fields})))


@pytest.mark.parametrize("field", _FIELDS)
def test_no_value_ends_a_reader(field: str) -> None:
    for value in _HOSTILE:
        made = [_event(), *(_event(event=name, **{field: value}) for name in _EVENTS)]
        events = [event for event in made if event is not None]
        (past, score), *_ = subject.ranking(events, NOW)
        assert page.past_page(past, score, events, since=0.0)
        assert json.dumps(page.as_json(past, score, events))
        assert observed.page(list(observed.observed(events, 0.0, NOW)), 0.0)
        assert len(still_open(events)) <= len(events)
        assert all(isinstance(name, str) for name in sorted(switches_on(events)))


def test_a_time_that_no_float_holds_is_no_event() -> None:
    assert _event(t=10**400) is None
    assert _event(t=float("nan")) is None
    assert _event(t=5) is not None
