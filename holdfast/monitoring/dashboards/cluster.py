"""The dashboard of the cluster."""

from __future__ import annotations

from holdfast.monitoring import JOIN
from holdfast.monitoring.dashboards.panel import Dashboard, Panel, Query, Row


def _stat(title: str, expr: str, about: str, *, red_from: float | None = 1) -> Panel:
    return Panel(
        title=title, about=about, queries=[Query(expr=expr)], kind="stat", width=4, height=4,
        red_from=red_from,
    )  # fmt: skip


CLUSTER = Dashboard(
    name="cluster",
    title="Holdfast: cluster",
    about="Which nodes are bad, drained or blind, and whether the agents and the bridge work.",
    rows=[
        Row(
            title="Now",
            panels=[
                _stat("Nodes", "count(holdfast_agent_info)", "Agents with metrics.", red_from=None),
                _stat("Drained", "sum(holdfast_node_drained)", "By any user.", red_from=None),
                _stat(
                    "Bad and in service",
                    '(sum(holdfast_node_status{status="bad"} == 1'
                    " and on (job, instance) holdfast_node_drained == 0) or vector(0))",
                    "A fatal fault on a node that is not drained.",
                ),
                _stat(
                    "Over budget",
                    "sum(holdfast_node_over_budget)",
                    "In service only because the budget is used up.",
                ),
                _stat(
                    "Need a person",
                    "sum(holdfast_node_manual_resume_required)",
                    "Returned too often; resume them by hand.",
                ),
                _stat(
                    "Without slurmctld",
                    "sum(holdfast_slurm_reachable == bool 0)",
                    "Agents that slurmctld does not answer.",
                ),
            ],
        ),
        Row(
            title="Nodes",
            panels=[
                Panel(
                    title="Verdicts",
                    about="Nodes by verdict.",
                    queries=[
                        Query(expr="sum by (status) (holdfast_node_status)", legend="{{status}}")
                    ],
                    width=12,
                ),
                Panel(
                    title="Out of service",
                    about="Drained nodes, and the share of all nodes in percent.",
                    queries=[
                        Query(expr="sum(holdfast_node_drained)", legend="drained"),
                        Query(
                            expr="100 * sum(holdfast_node_drained) / count(holdfast_node_drained)",
                            legend="% of all",
                        ),
                    ],
                    width=12,
                ),
                Panel(
                    title="Open findings",
                    about="What checks see now, without notes. Only findings in mode drain take a node out.",
                    queries=[
                        Query(
                            expr="count by (node, code, subject, severity, mode) ("
                            f'holdfast_finding_open{{severity!="info"}} {JOIN})',
                            legend="{{node}} {{code}}",
                        )
                    ],
                    kind="table",
                    width=24,
                    height=9,
                ),
                Panel(
                    title="Events",
                    about="Recorded in the history, each hour.",
                    queries=[
                        Query(
                            expr="sum by (event) (increase(holdfast_events_total[1h]))",
                            legend="{{event}}",
                        )
                    ],
                    width=12,
                ),
                Panel(
                    title="Silent probes",
                    about="Nodes on which a probe gives no answer.",
                    queries=[
                        Query(
                            expr="sum by (probe) (holdfast_probe_up == bool 0)", legend="{{probe}}"
                        )
                    ],
                    width=12,
                ),
            ],
        ),
        Row(
            title="Agents",
            panels=[
                Panel(
                    title="Versions",
                    about="Agents by version.",
                    queries=[
                        Query(expr="count by (version) (holdfast_agent_info)", legend="{{version}}")
                    ],
                ),
                Panel(
                    title="CPU",
                    about="Cores of the agent that uses the most.",
                    queries=[
                        Query(
                            expr="max by (of) (rate(holdfast_agent_cpu_seconds_total[5m]))",
                            legend="{{of}}",
                        )
                    ],
                    unit="suffix: cores",
                ),
                Panel(
                    title="Memory",
                    about="Of the agent that uses the most.",
                    queries=[
                        Query(
                            expr="max(holdfast_agent_resident_memory_max_bytes)", legend="maximum"
                        )
                    ],
                    unit="bytes",
                ),
            ],
        ),
        Row(
            title="Bridge",
            panels=[
                Panel(
                    title="Age of the snapshots",
                    about="Time since the bridge last had the current state of each side.",
                    queries=[
                        Query(
                            expr="max by (side) (holdfast_bridge_snapshot_age_seconds)",
                            legend="{{side}}",
                        )
                    ],
                    unit="s",
                    red_from=60,
                ),
                Panel(
                    title="Changes",
                    about="Written, refused and planned, by kind.",
                    queries=[
                        Query(
                            expr="sum by (change) (increase(holdfast_bridge_writes_total[5m]))",
                            legend="written: {{change}}",
                        ),
                        Query(
                            expr="sum by (change) (increase(holdfast_bridge_refusals_total[5m]))",
                            legend="refused: {{change}}",
                        ),
                        Query(
                            expr="sum by (change) (holdfast_bridge_planned_changes)",
                            legend="planned: {{change}}",
                        ),
                    ],
                ),
                Panel(
                    title="Passes",
                    about="Passes and failed passes each second, and whether a kill switch is on.",
                    queries=[
                        Query(
                            expr="sum(rate(holdfast_bridge_passes_total[5m]))", legend="passes/s"
                        ),
                        Query(
                            expr="sum(rate(holdfast_bridge_failed_passes_total[5m]))",
                            legend="failed/s",
                        ),
                        Query(
                            expr="max(holdfast_bridge_kill_switch_active)",
                            legend="kill switch active",
                        ),
                    ],
                ),
            ],
        ),
    ],
)
