"""The Prometheus of ``scripts/screenshots`` answers with what agent and bridge exported."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from grafana.prometheus import Programs, Prometheus, import_pages, programs
from grafana.recording import Page
from testbed.errors import SandboxError
from testbed.paths import cache

from holdfast.monitoring.dashboards import DASHBOARDS, json_of
from tests.prometheus import agent_page, bridge_page


@pytest.fixture(scope="module")
def tools() -> Programs:
    try:
        return programs(cache())
    except SandboxError as error:
        pytest.skip(str(error))


def pages(now_s: float) -> list[Page]:
    """Five minutes: worker-2 is healthy in the first half."""
    return [
        page
        for at_s in range(0, 300, 5)
        for page in (
            Page(
                at_s=now_s - 300 + at_s,
                labels={"job": "holdfast", "instance": "worker-2"},
                text=agent_page("worker-2", healthy=at_s < 150),
            ),
            Page(
                at_s=now_s - 300 + at_s,
                labels={"job": "bridge", "instance": "bridge"},
                text=bridge_page(),
            ),
        )
    ]


def test_each_panel_has_the_values_of_its_time(tools: Programs, tmp_path: Path) -> None:
    recorded = pages(time.time())
    with Prometheus(tools, import_pages(tools, recorded, tmp_path)) as prometheus:
        picture = prometheus.answers(json_of(DASHBOARDS["node"]), recorded, ["worker-2"])
    assert picture["empty"] == []
    (verdict,) = (
        panel
        for panel in picture["model"]["panels"]
        if panel["title"] == "Verdict" and "targets" in panel
    )
    series = {
        one["metric"]["status"]: [float(value) for _, value in one["values"]]
        for one in picture["answers"][verdict["targets"][0]["expr"]]
    }
    assert series["ok"][:29] == [1] * 29
    assert series["bad"][:29] == [0] * 29
    assert series["ok"][31:] == [0] * len(series["ok"][31:])
    assert series["bad"][31:] == [1] * len(series["bad"][31:])


def test_a_query_that_prometheus_refuses_is_named(tools: Programs, tmp_path: Path) -> None:
    recorded = pages(time.time())[:20]
    model = {"panels": [{"targets": [{"expr": "sum("}]}]}
    with (
        Prometheus(tools, import_pages(tools, recorded, tmp_path)) as prometheus,
        pytest.raises(SandboxError, match=r"^sum\(: .*parse error"),
    ):
        prometheus.answers(model, recorded, ["worker-2"])
