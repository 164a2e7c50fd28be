"""What checks that only report would have drained: from events alone."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.history.event import Event
from holdfast.history.kill_switches import by_name, of_nodes, switches_on
from holdfast.history.observed import Observed, as_json, most_at_once, observed, page

HOUR = 3600.0
SINCE, NOW = 1000 * HOUR, 1168 * HOUR


def event(at_h: float, name: str, node: str = "n1", code: str = "XID79", **facts: Any) -> Event:
    about = {"check": "gpu_xid", "subject": "GPU-1", "severity": "fatal", "mode": "observe"}
    return Event(
        t=at_h * HOUR, event=name, node=node, code=code, detail="fell off", facts={**about, **facts}
    )


def opened(at_h: float, node: str = "n1", **facts: Any) -> Event:
    return event(at_h, "finding_opened", node, **facts)


def closed(at_h: float, node: str = "n1", **facts: Any) -> Event:
    return event(at_h, "finding_closed", node, **facts)


def found(*events: Event) -> list[Observed]:
    return observed(events, SINCE, NOW)


def test_an_open_fault_counts_until_now_and_a_closed_one_until_its_end() -> None:
    (row,) = found(opened(1160))
    assert (row.node, row.code, row.times, row.open_s) == ("n1", "XID79", 1, 8 * HOUR)
    (row,) = found(opened(1010), closed(1012), opened(1020), closed(1021))
    assert (row.times, row.open_s) == (2, 3 * HOUR)


def test_only_the_window_counts() -> None:
    assert found(opened(900), closed(950)) == []
    (row,) = found(opened(900), closed(1001))
    assert (row.spans, row.open_s) == (((SINCE, 1001 * HOUR),), HOUR)


@pytest.mark.parametrize(
    "facts",
    [
        {"mode": "drain"},
        {"mode": None},
        {"severity": "info", "code": "XID45"},
        {"code": "GPU_THERMAL_NOTED", "severity": "info"},
    ],
)
def test_what_drained_or_would_not_drain_is_left_out(facts: dict[str, Any]) -> None:
    assert found(opened(1100, **facts)) == []


def test_a_check_in_mode_comment_counts_too() -> None:
    assert [row.mode for row in found(opened(1100, mode="comment"))] == ["comment"]


def test_the_most_nodes_at_once_are_counted_as_nodes() -> None:
    rows = found(
        opened(1010, "n1"), opened(1011, "n1", code="XID48"), opened(1012, "n2"),
        closed(1013, "n2"), closed(1014, "n1"), opened(1015, "n3"), closed(1016, "n3"),
    )  # fmt: skip
    assert most_at_once(rows) == 2
    assert [row.node for row in rows][:2] == ["n1", "n1"], "the node with most of them first"
    assert page(rows, SINCE).startswith("3 nodes would have been drained since ")
    assert "at most 2 at the same time" in page(rows, SINCE)


def test_the_page_fits_and_the_json_has_every_value() -> None:
    rows = found(opened(1100, "n1"), opened(1101, "a-rather-long-node-name-17"))
    for width in (80, 120):
        assert max(map(len, page(rows, SINCE, width).splitlines())) <= width
    assert next(iter(as_json(rows))) == {
        "node": "a-rather-long-node-name-17", "check": "gpu_xid", "mode": "observe", "code": "XID79",
        "subject": "GPU-1", "severity": "fatal", "times": 1, "open_s": 67 * HOUR,
        "first": 1101 * HOUR, "last": NOW, "detail": "fell off",
    }  # fmt: skip
    assert "would have drained a node since" in page([], SINCE)


def test_the_last_event_of_a_node_tells_its_kill_switches() -> None:
    def noted(name: str, node: str = "n1", **facts: Any) -> Event:
        return Event(t=1, event=name, node=node, facts=facts)

    first, second = noted("agent_started", on=["all"]), noted("kill_switches", on=["gpu_xid"])
    assert switches_on([first]) == {"all"}
    assert switches_on([first, noted("drained"), second]) == {"gpu_xid"}
    assert switches_on([second, noted("agent_started")]) == frozenset()
    assert switches_on([noted("kill_switches", on="all")]) == frozenset()
    of = of_nodes([first, noted("agent_started", "n2", on=["all", "x"]), noted("boot", "n3")])
    assert of == {"n1": ["all"], "n2": ["all", "x"], "n3": []}
    assert by_name(of) == {"all": ["n1", "n2"], "x": ["n2"]}
