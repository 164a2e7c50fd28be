"""The documents of ``holdfast render`` for Prometheus and Grafana."""

from __future__ import annotations

import json
from collections.abc import Mapping

from holdfast.monitoring import PACKAGE
from holdfast.monitoring.alerts import agent_alerts, bridge_alerts
from holdfast.monitoring.dashboards import DASHBOARDS, json_of
from holdfast.render.document import NAME, REQUIRED, Document, Value
from holdfast.version import VERSION

_LABEL = r"[\w./-]+=[\w.-]*"
LABELS = rf"({_LABEL}(,{_LABEL})*)?"
_SELECTOR = rf"{_LABEL}(,{_LABEL})*"
_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
_PERCENT = r"[1-9][0-9]?"
_SECONDS = r"[1-9][0-9]{0,2}"

_ABOUT_LABELS = "NAME=VALUE,…: labels by which your Prometheus finds it (release=…)"


def pairs(text: str) -> Mapping[str, str]:
    """The labels in ``NAME=VALUE,…``."""
    return dict(pair.split("=", 1) for pair in text.split(",") if pair)


def own(name: str, more: str) -> Mapping[str, str]:
    """Holdfast's labels, which win, and the ones that a person added."""
    return {
        **pairs(more),
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/part-of": "holdfast",
        "app.kubernetes.io/version": VERSION,
    }


def rule_groups(of: str, drained_percent: str, labels: str = "") -> list[Mapping[str, object]]:
    """The groups of rules and the labels of their objects; ``of``: all, agent or bridge."""
    groups = {"agent": [*agent_alerts(drained_percent)], "bridge": [*bridge_alerts()]}
    return [
        {"name": f"holdfast-{name}", "alerts": alerts, "labels": own(f"holdfast-{name}", labels)}
        for name, alerts in groups.items()
        if of in ("all", name)
    ]


def _rules(values: Mapping[str, str]) -> Mapping[str, object]:
    return {
        "operator": values["as"] == "operator",
        "groups": rule_groups(values["of"], values["drained_percent"], values["labels"]),
    }


RULES = Document(
    about="alert rules for Prometheus",
    package=PACKAGE,
    template="prometheus_rules.yaml.j2",
    context=_rules,
    values={
        "as": Value(
            "operator|file", "operator", "operator: a PrometheusRule; file: for rule_files"
        ),
        "namespace": Value(NAME, "holdfast", "of the PrometheusRules"),
        "labels": Value(LABELS, "", _ABOUT_LABELS),
        "drained_percent": Value(_PERCENT, "10", "alert when more nodes than that are drained"),
        "of": Value("all|agent|bridge", "all", "agent: the cluster has no bridge"),
    },
)


def _bridge(values: Mapping[str, str]) -> Mapping[str, object]:
    return {"labels": own("holdfast-bridge", values["labels"])}


BRIDGE_MONITOR = Document(
    about="PodMonitor: Prometheus' operator asks the bridge for its metrics",
    package=PACKAGE,
    template="bridge_pod_monitor.yaml.j2",
    context=_bridge,
    values={
        "namespace": Value(NAME, "holdfast", "the same as in `holdfast render deployment`"),
        "labels": Value(LABELS, "", _ABOUT_LABELS),
        "interval_s": Value(_SECONDS, "30", "seconds between two scrapes"),
    },
)


def _agents(values: Mapping[str, str]) -> Mapping[str, object]:
    return {"labels": own("holdfast-agent", values["labels"]), "pods": pairs(values["pods"])}


AGENT_MONITOR = Document(
    about="PodMonitor: Prometheus' operator asks the agents in the pods of Slurm's workers",
    package=PACKAGE,
    template="agent_pod_monitor.yaml.j2",
    context=_agents,
    values={
        "namespace": Value(NAME, "holdfast", "of the PodMonitor"),
        "labels": Value(LABELS, "", _ABOUT_LABELS),
        "interval_s": Value(_SECONDS, "30", "seconds between two scrapes"),
        "pods": Value(_SELECTOR, REQUIRED, "NAME=VALUE,…: labels of the pods in which slurmd runs"),
        "pods_namespace": Value(NAME, REQUIRED, "the namespace of those pods"),
        "port": Value(_PORT, "9645", "agent.metrics_port; agent.metrics_host must be 0.0.0.0"),
    },
)


def dashboard_json(which: str) -> str:
    """The dashboard of this name as JSON."""
    return json.dumps(json_of(DASHBOARDS[which]), indent=1, ensure_ascii=False)


def _dashboard(values: Mapping[str, str]) -> Mapping[str, object]:
    labels = own(f"holdfast-dashboard-{values['which']}", values["labels"])
    return {
        "configmap": values["as"] == "configmap",
        "labels": {**labels, "grafana_dashboard": "1"},
        "json": dashboard_json(values["which"]),
    }


DASHBOARD = Document(
    about="a dashboard for Grafana",
    package=PACKAGE,
    template="dashboard.j2",
    context=_dashboard,
    values={
        "which": Value("|".join(DASHBOARDS), "cluster", "the cluster, a node, the nodes of a job"),
        "as": Value("json|configmap", "json", "configmap: for the side-car of Grafana's chart"),
        "namespace": Value(NAME, "holdfast", "of the ConfigMap"),
        "labels": Value(LABELS, "", "NAME=VALUE,…: more labels of the ConfigMap"),
    },
)
