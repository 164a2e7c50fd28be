"""A dashboard as Grafana's JSON model. Pure.

Source: grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model.
"""

from __future__ import annotations

from typing import Any

from holdfast.monitoring.dashboards.panel import Dashboard, Panel

SCHEMA_VERSION = 39
"""Grafana 10 and newer; newer ones migrate it."""

_WIDTH = 24
"""Columns of Grafana's grid."""

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_RED, _GREEN = "red", "green"

_HIDDEN = {
    "matcher": {"id": "byRegexp", "options": "^(Time|Value.*|__name__|instance|job)$"},
    "properties": [{"id": "custom.hidden", "value": True}],
}
"""Columns of a table that say nothing about a finding."""


def json_of(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana's JSON model."""
    return {
        "uid": f"holdfast-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["holdfast", "slurm"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables(dashboard)},
        "panels": _panels(dashboard),
    }


def _variables(dashboard: Dashboard) -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource"}
    variables: list[dict[str, Any]] = [{**source, "query": "prometheus"}]
    if dashboard.variable:
        query = f"label_values(holdfast_agent_info, {dashboard.variable})"
        variables.append(
            {
                "name": dashboard.variable,
                "label": "Nodes" if dashboard.several else "Node",
                "type": "query",
                "datasource": _SOURCE,
                "query": query,
                "refresh": 2,
                "sort": 7,
                "multi": dashboard.several,
                "includeAll": dashboard.several,
            }
        )
    return variables


def _panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    x = y = tallest = 0
    for row in dashboard.rows:
        y += tallest
        place = {"x": 0, "y": y, "w": _WIDTH, "h": 1}
        made.append({"id": len(made) + 1, "type": "row", "title": row.title, "gridPos": place})
        x, y, tallest = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > _WIDTH:
                x, y, tallest = 0, y + tallest, 0
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            made.append({"id": len(made) + 1, "gridPos": place, **_panel(panel)})
            x, tallest = x + panel.width, max(tallest, panel.height)
    return made


def _axis(panel: Panel) -> dict[str, Any]:
    """Of zeros alone Grafana draws an axis to 100, or to 10000 %."""
    if panel.unit == "percentunit":
        return {"min": 0, "max": 1}
    if panel.kind == "timeseries" and panel.unit == "short":
        return {"custom": {"axisSoftMin": 0, "axisSoftMax": 1}}
    return {}


def _panel(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"value": None, "color": _GREEN}]
    if panel.red_from is not None:
        steps.append({"value": panel.red_from, "color": _RED})
    table = panel.kind == "table"
    model: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
                **({"instant": True, "format": "table"} if table else {}),
            }
            for number, query in enumerate(panel.queries)
        ],
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "thresholds": {"mode": "absolute", "steps": steps},
                **_axis(panel),
            },
            "overrides": [_HIDDEN] if table else [],
        },
        "options": {},
    }
    return {**model, "description": panel.about} if panel.about else model
