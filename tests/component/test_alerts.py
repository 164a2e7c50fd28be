"""Each alert rule, evaluated by Prometheus' promtool over what agent and bridge export."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.cli.commands.render import render_text
from holdfast.monitoring.alerts import Alert, agent_alerts, bridge_alerts
from tests.prometheus import MINUTES, Series, agent_page, bridge_page, changed, run, series, written

ALERTS = {alert.name: alert for alert in (*agent_alerts("10"), *bridge_alerts())}

BAD, GOOD = "worker-3", "worker-4"

SECOND = {"job": "holdfast-agent", "instance": "10.0.0.3:9645"}
"""The target of the node that has the fault."""

HEALTHY: list[Series] = [
    *series(agent_page(BAD), **SECOND),
    *series(agent_page(GOOD), job="holdfast-agent", instance="10.0.0.4:9645"),
    *series(bridge_page(), job="holdfast/holdfast-bridge", instance="10.0.1.1:9646"),
]


class Case(NamedTuple):
    """What changes, and the alert that fires at ``minute``: its labels and its summary."""

    alert: str
    name: str
    labels: Mapping[str, str]
    values: str
    fires: Mapping[str, str]
    summary: str
    minute: int = 60


ON_NODE = {"node": BAD, **SECOND}

CASES = [
    Case(
        "HoldfastAgentMissing", "holdfast_agent_info", {"node": BAD}, "1+0x30 _x150",
        {"node": BAD}, "worker-3 has no metrics of Holdfast's agent any more",
    ),
    Case(
        "HoldfastAgentStuck", "holdfast_agent_last_pass_timestamp_seconds", SECOND, "600+0x180",
        ON_NODE, "The agent of worker-3 has not finished a pass for 50m 0s",
    ),
    Case(
        "HoldfastAgentRestarts", "holdfast_agent_start_time_seconds", SECOND,
        "0+0x20 10+0x9 20+0x9 30+0x9 40+0x120",
        ON_NODE, "The agent of worker-3 started 4 times within an hour",
    ),
    Case(
        "HoldfastBadNodeInService", "holdfast_node_status", {**SECOND, "status": "bad"}, "1+0x180",
        {**ON_NODE, "status": "bad"}, "worker-3 has a fatal fault and is not drained",
    ),
    Case(
        "HoldfastNodeOverBudget", "holdfast_node_over_budget", SECOND, "1+0x180",
        ON_NODE, "worker-3 stays in service only because the budget is used up",
    ),
    Case(
        "HoldfastManyNodesDrained", "holdfast_node_drained", SECOND, "1+0x180",
        {}, "50 % of the nodes are drained",
    ),
    Case(
        "HoldfastNodeNeedsPerson", "holdfast_node_manual_resume_required", SECOND, "1+0x180",
        ON_NODE, "worker-3 failed again after several returns to service",
    ),
    Case(
        "HoldfastProbeSilent", "holdfast_probe_up", {**SECOND, "probe": "nvml"}, "0+0x180",
        {"node": BAD, "probe": "nvml"}, "The probe nvml of worker-3 gives no answer",
    ),
    Case(
        "HoldfastSlurmUnreachable", "holdfast_slurm_reachable", SECOND, "0+0x180",
        ON_NODE, "slurmctld does not answer the agent of worker-3",
    ),
    Case(
        "HoldfastConfigurationRefused", "holdfast_agent_config_problems", SECOND, "1+0x180",
        ON_NODE, "worker-3 does not accept its configuration file and uses the last good one",
    ),
    Case(
        "HoldfastHistoryNotWritten", "holdfast_history_write_failures", SECOND, "11+1x180",
        ON_NODE, "The agent of worker-3 cannot write its history",
    ),
    Case(
        "HoldfastKernelLogLost", "holdfast_kernel_log_lost_records_total", SECOND, "2+1x180",
        ON_NODE, "worker-3 lost records of its kernel log before they were read",
    ),
    Case(
        "HoldfastBridgeMissing", "holdfast_bridge_info", {}, "1+0x20 _x160",
        {}, "Holdfast's bridge has no metrics",
    ),
    Case(
        "HoldfastBridgeStale", "holdfast_bridge_snapshot_age_seconds", {"side": "slurm"}, "90+0x180",
        {"side": "slurm"}, "The bridge has had no answer of slurm for 1m 30s",
    ),
    Case(
        "HoldfastBridgeFails", "holdfast_bridge_failed_passes_total", {}, "0+2x180",
        {}, "30 passes of the bridge ended with an error within 15 minutes",
    ),
    Case(
        "HoldfastBridgeRefused", "holdfast_bridge_refusals_total", {"change": "Isolate"},
        "0+0x55 1+0x125",
        {"change": "Isolate"}, "Slurm or the API server refused changes of the kind Isolate",
    ),
    Case(
        "HoldfastBridgeConfigurationRefused", "holdfast_bridge_configuration_invalid", {}, "1+0x180",
        {}, "The bridge does not accept its configuration file and uses the last good one",
    ),
    Case(
        "HoldfastBridgeKillSwitchActive", "holdfast_bridge_kill_switch_active", {}, "1+0x180",
        {}, "A kill switch stops all actions of the bridge", 70,
    ),
]  # fmt: skip

OF_A_FINDING = {
    "HoldfastStateNotWritten": ("STATE_UNWRITABLE", "The agent of worker-3 cannot write its state"),
    "HoldfastReturnUnconfirmed": (
        "RETURN_UNCONFIRMED",
        "Accounting has not confirmed the last return of worker-3 to service",
    ),
}


def fires(case: Case, every: list[Series]) -> dict[str, Any]:
    """One test of promtool: this alert fires, with these labels and texts."""
    alert: Alert = ALERTS[case.alert]
    remedy = alert.remedy.replace("{{ $labels.node }}", BAD)
    wanted = {
        "exp_labels": {**case.fires, "severity": alert.severity},
        "exp_annotations": {"summary": case.summary, "description": remedy},
    }
    tested = {"eval_time": f"{case.minute}m", "alertname": case.alert, "exp_alerts": [wanted]}
    return {
        "name": case.alert,
        "interval": "1m",
        "input_series": [written(one) for one in every],
        "alert_rule_test": [tested],
    }


def test_each_alert_fires_for_its_problem_and_names_the_node(
    promtool: Path, tmp_path: Path
) -> None:
    """Each over all real series, with one changed: a rule that names no real metric cannot pass."""
    tests = [fires(case, changed(HEALTHY, case.name, case.labels, case.values)) for case in CASES]
    findings = series(agent_page(BAD, healthy=False), **SECOND)
    (found,) = (one for one in findings if one.name == "holdfast_finding_open")
    for alert, (code, summary) in OF_A_FINDING.items():
        labels = {**found.labels, "code": code}
        added = found._replace(labels=labels, values=f"1+0x{MINUTES}")
        case = Case(alert, found.name, {}, "", {**labels, "node": BAD}, summary)
        tests.append(fires(case, [*HEALTHY, added]))
    assert {test["name"] for test in tests} == ALERTS.keys()
    assert run(promtool, tmp_path, tests, render_text("prometheus-rules", **{"as": "file"})) == ""


def test_no_alert_fires_while_all_is_well(promtool: Path, tmp_path: Path) -> None:
    silent = [
        {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": []}
        for name in ALERTS
        for minute in (5, 90, MINUTES)
    ]
    healthy = {
        "interval": "1m",
        "input_series": [written(one) for one in HEALTHY],
        "alert_rule_test": silent,
    }
    assert (
        run(promtool, tmp_path, [healthy], render_text("prometheus-rules", **{"as": "file"})) == ""
    )


def test_promtool_accepts_the_file(promtool: Path, tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    for of, count in (("all", len(ALERTS)), ("agent", len([*agent_alerts("10")]))):
        file.write_text(render_text("prometheus-rules", **{"as": "file", "of": of}))
        done = subprocess.run(
            [promtool, "check", "rules", file], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(rf"SUCCESS: {count} rules found", done.stdout + done.stderr)
