"""The documents for Prometheus and Grafana. tests/component evaluates what they ask with promtool."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands.render import render_text
from holdfast.monitoring.alerts import agent_alerts, bridge_alerts
from holdfast.monitoring.dashboards import DASHBOARDS

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"
PODS = {"pods": "slurm.nebius.ai/worker=true,a=b", "pods_namespace": "soperator"}


def objects(what: str, **values: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(render_text(what, **values))]


def test_the_operators_rules_are_those_of_the_file() -> None:
    agent, bridge = objects("prometheus-rules", namespace="monitoring", drained_percent="7")
    (groups,) = objects("prometheus-rules", drained_percent="7", **{"as": "file"})
    assert groups["groups"] == [*agent["spec"]["groups"], *bridge["spec"]["groups"]]
    names = [rule["alert"] for group in groups["groups"] for rule in group["rules"]]
    assert names == [one.name for one in (*agent_alerts("7"), *bridge_alerts())]
    assert [one["metadata"]["namespace"] for one in (agent, bridge)] == ["monitoring"] * 2
    many = next(rule for rule in groups["groups"][0]["rules"] if "Many" in rule["alert"])
    assert many["expr"].endswith("> 7")


@pytest.mark.parametrize("of", ["agent", "bridge"])
def test_the_rules_of_one_half(of: str) -> None:
    (one,) = objects("prometheus-rules", of=of)
    assert one["metadata"]["name"] == f"holdfast-{of}"
    (groups,) = objects("prometheus-rules", of=of, **{"as": "file"})
    assert [group["name"] for group in groups["groups"]] == [f"holdfast-{of}"]


def test_labels_can_be_added_and_those_of_holdfast_stay() -> None:
    labels = "release=kps,app.kubernetes.io/part-of=other"
    made = [
        *objects("prometheus-rules", labels=labels),
        *objects("pod-monitor", labels=labels),
        *objects("agent-pod-monitor", labels=labels, **PODS),
        *objects("dashboard", labels=labels, **{"as": "configmap"}),
    ]
    for one in made:
        assert one["metadata"]["labels"]["release"] == "kps"
        assert one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "holdfast"


def test_the_bridges_pod_has_the_label_and_the_port_that_are_asked() -> None:
    (monitor,) = objects("pod-monitor")
    image = f"registry.example.org/holdfast@sha256:{'0' * 64}"
    _, deployment = objects("deployment", image=image)
    pod = deployment["spec"]["template"]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= pod["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (container,) = pod["spec"]["containers"]
    assert endpoint["port"] in [port["name"] for port in container["ports"]]


def test_the_agents_are_asked_at_the_address_of_slurmds_pod() -> None:
    (monitor,) = objects("agent-pod-monitor", port="9700", **PODS)
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["soperator"]}
    labels = {"slurm.nebius.ai/worker": "true", "a": "b"}
    assert monitor["spec"]["selector"] == {"matchLabels": labels}
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    address = endpoint["relabelings"][0]
    # Prometheus anchors the pattern; Python writes ${1} as \1.
    replacement = address["replacement"].replace("${1}", r"\1")
    assert re.sub(f"^{address['regex']}$", replacement, "10.1.2.3") == "10.1.2.3:9700"
    assert re.sub(f"^{address['regex']}$", replacement, "fd00::1") == "fd00::1"


def asked() -> Iterator[str]:
    """Every query."""
    yield from (one.expr for one in (*agent_alerts("10"), *bridge_alerts()))
    for dashboard in DASHBOARDS.values():
        yield from (
            query.expr for row in dashboard.rows for panel in row.panels for query in panel.queries
        )


def test_only_metrics_that_the_reference_page_has_are_asked() -> None:
    """Unit tests compare that page with what agent and bridge export."""
    known = set(re.findall(r"^\| `(holdfast_\w+)` \|", PAGE.read_text(), re.MULTILINE))
    used = {name for expr in asked() for name in re.findall(r"\bholdfast_\w+", expr)}
    assert used <= known
    assert len(used) > 30


@pytest.mark.parametrize("which", DASHBOARDS)
def test_a_dashboard_in_a_configmap_is_the_same(which: str) -> None:
    (made,) = objects("dashboard", which=which, **{"as": "configmap"})
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = made["data"].values()
    assert json.loads(text) == json.loads(render_text("dashboard", which=which))


def lost(given: Any, kept: Any, path: str = "") -> Iterator[str]:
    """Paths of ``given`` that are not in ``kept``, or differ there."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            if name in kept:
                yield from lost(value, kept[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for number, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from lost(one, other, f"{path}[{number}]")
    elif given != kept:
        yield path


def through_grafanas_schema(model: Any) -> Any:
    """``model`` as the classes that Grafana generates from its schema keep it."""
    dashboard = importlib.import_module("grafana_foundation_sdk.models.dashboard")
    encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder")
    importlib.import_module("grafana_foundation_sdk.cog.plugins").register_default_plugins()
    return json.loads(json.dumps(dashboard.Dashboard.from_json(model), cls=encoder.JSONEncoder))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Grafana's SDK needs Python 3.11")
@pytest.mark.parametrize("which", DASHBOARDS)
def test_grafanas_schema_knows_every_field(which: str) -> None:
    model = json.loads(render_text("dashboard", which=which))
    assert list(lost(model, through_grafanas_schema(model))) == []
    model["panels"][1]["targets"][0]["exprr"] = "up"
    model["refreshh"] = "1s"
    assert len(list(lost(model, through_grafanas_schema(model)))) == 2
