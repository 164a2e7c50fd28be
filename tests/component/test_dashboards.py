"""Each query of the Grafana dashboards, evaluated by promtool over what agent and bridge export."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testbed.paths import cache
from testbed.rootfs import pinned_venv

from holdfast.cli.commands.render import render_text
from holdfast.monitoring.dashboards import DASHBOARDS
from tests.prometheus import Series, agent_page, bridge_page, run, series, written
from tests.unit.holdfast.monitoring.test_documents import lost

EVERY: list[Series] = [
    *series(agent_page("worker-3", healthy=False), job="holdfast", instance="10.0.0.3:9645"),
    *series(agent_page("worker-4"), job="holdfast", instance="10.0.0.4:9645"),
    *series(bridge_page(), job="bridge", instance="10.0.1.1:9646"),
]


def model(which: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(render_text("dashboard", which=which))
    return read


def queries(which: str) -> Iterator[tuple[str, str]]:
    """Query and legend of each target, with the variable filled as Grafana does."""
    for panel in model(which)["panels"]:
        for target in panel.get("targets", ()):
            nodes = "(worker-3|worker-4)" if which == "job" else "worker-3"
            yield target["expr"].replace("$node", nodes), target["legendFormat"]


def answers(query: str, legend: str) -> Iterator[dict[str, Any]]:
    """The query has an answer, and each series of it the labels that the legend shows."""
    yield {"expr": f"count({query}) > bool 0", "exp_samples": [{"labels": "{}", "value": 1}]}
    for label in re.findall(r"{{(\w+)}}", legend):
        named = f'label_replace({query}, "found", "yes", "{label}", "(?s:.+)")'
        wanted = {"labels": '{found="yes"}', "value": 1}
        yield {"expr": f"count by (found) ({named}) > bool 0", "exp_samples": [wanted]}


@pytest.mark.parametrize("which", DASHBOARDS)
def test_each_query_has_an_answer(promtool: Path, tmp_path: Path, which: str) -> None:
    """A metric that nothing exports, or a label that it does not have, has none."""
    tested = [one for query, legend in queries(which) for one in answers(query, legend)]
    assert len(tested) > 10
    test = {
        "interval": "1m",
        "input_series": [written(one) for one in EVERY],
        "promql_expr_test": [{**one, "eval_time": "90m"} for one in tested],
    }
    assert run(promtool, tmp_path, [test]) == ""


def test_the_variable_of_a_dashboard_is_a_label_that_is_exported() -> None:
    for which in ("node", "job"):
        (_, variable) = model(which)["templating"]["list"]
        metric, label = re.findall(r"^label_values\((\w+), (\w+)\)$", variable["query"])[0]
        assert [one.labels[label] for one in EVERY if one.name == metric] == [
            "worker-3",
            "worker-4",
        ]


@pytest.mark.parametrize("which", DASHBOARDS)
def test_no_two_panels_are_in_one_place(which: str) -> None:
    taken: set[tuple[int, int]] = set()
    panels = model(which)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        rows = range(place["y"], place["y"] + place["h"])
        cells = {(column, row) for column in columns for row in rows}
        assert not cells & taken
        assert columns.stop <= 24
        taken |= cells


_THROUGH_THE_SCHEMA = """\
import json, sys
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard
plugins.register_default_plugins()
print(json.dumps(dashboard.Dashboard.from_json(json.load(sys.stdin)), cls=encoder.JSONEncoder))
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Grafana's SDK needs Python 3.11")
def test_the_schema_of_grafana_11_6_knows_every_field() -> None:
    """Unit tests do the same with that of Grafana 10.1."""
    lock = Path(__file__).with_name("grafana.lock")
    python = pinned_venv.make(lock, cache() / "release", print) / "bin/python"

    def missing(given: dict[str, Any]) -> list[str]:
        argv: list[str | Path] = [python, "-I", "-c", _THROUGH_THE_SCHEMA]
        kept = subprocess.run(
            argv, input=json.dumps(given), capture_output=True, text=True, check=True
        )
        return list(lost(given, json.loads(kept.stdout)))

    for which in DASHBOARDS:
        assert missing(model(which)) == []
    bad = model("node")
    bad["panels"][1]["targets"][0]["exprr"] = "up"
    assert missing(bad) == [".panels[1].targets[0].exprr"]
