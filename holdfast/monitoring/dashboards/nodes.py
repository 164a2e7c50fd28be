"""The dashboards of one node, and of the nodes of a job."""

from __future__ import annotations

from holdfast.monitoring import JOIN
from holdfast.monitoring.dashboards.panel import Dashboard, Panel, Query, Row


def _of(metric: str) -> str:
    """``metric`` of the nodes chosen in the variable ``node``, with that label."""
    return f'{metric} {JOIN}{{node=~"$node"}}'


def _hardware(who: str) -> list[Row]:
    """The rows that one node and a job's nodes share. ``who``: the legend's beginning."""

    def reduced(metric: str, cause: str) -> Query:
        rate = f"rate(holdfast_gpu_{metric}_seconds_total[5m])"
        return Query(expr=_of(rate), legend=f"{who}GPU {{{{gpu}}}} {cause}")

    def gpu(metric: str) -> Query:
        return Query(expr=_of(f"holdfast_gpu_{metric}"), legend=f"{who}GPU {{{{gpu}}}}")

    def mount(metric: str) -> Query:
        return Query(expr=_of(f"holdfast_mount_{metric}"), legend=f"{who}{{{{path}}}}")

    return [
        Row(
            title="GPUs",
            panels=[
                Panel(title="Answers", about="0: lost.", queries=[gpu("up")]),
                Panel(
                    title="Temperature", about="", queries=[gpu("temperature_celsius")],
                    unit="celsius",
                ),
                Panel(
                    title="Clocks reduced", about="Share of the time, by reason.",
                    queries=[
                        reduced("thermal_violation", "heat"),
                        reduced("hw_power_brake_slowdown", "power brake"),
                    ], unit="percentunit",
                ),
                Panel(
                    title="Uncorrected ECC errors", about="Since boot or reset.",
                    queries=[gpu("ecc_uncorrected_errors")],
                ),
                Panel(title="NVLinks", about="That are up.", queries=[gpu("nvlinks_active")]),
                Panel(
                    title="Recovery action",
                    about="0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset.",
                    queries=[gpu("recovery_action")],
                ),
            ],
        ),
        Row(
            title="Fabric and storage",
            panels=[
                Panel(
                    title="InfiniBand", about="Active ports, and links lost each hour.",
                    queries=[
                        Query(
                            expr=_of("holdfast_infiniband_port_active"),
                            legend=f"{who}{{{{device}}}} active",
                        ),
                        Query(
                            expr=_of("increase(holdfast_infiniband_link_downed_total[1h])"),
                            legend=f"{who}{{{{device}}}} lost",
                        ),
                    ],
                ),
                Panel(
                    title="Mounts", about="Latency of a small write.",
                    queries=[mount("latency_seconds")], unit="s",
                ),
                Panel(
                    title="Free", about="On each mount.", queries=[mount("free_bytes")],
                    unit="bytes",
                ),
            ],
        ),
    ]  # fmt: skip


NODE = Dashboard(
    name="node",
    title="Holdfast: node",
    about="One node: verdict, findings, probes and what they read.",
    variable="node",
    rows=[
        Row(
            title="Verdict",
            panels=[
                Panel(
                    title="Verdict",
                    about="1: the verdict at that time.",
                    queries=[Query(expr=_of("holdfast_node_status"), legend="{{status}}")],
                ),
                Panel(
                    title="In Slurm",
                    about="Drained, over budget, to be resumed by hand, slurmctld answers.",
                    queries=[
                        Query(expr=_of("holdfast_node_drained"), legend="drained"),
                        Query(expr=_of("holdfast_node_over_budget"), legend="over budget"),
                        Query(
                            expr=_of("holdfast_node_manual_resume_required"),
                            legend="manual resume required",
                        ),
                        Query(expr=_of("holdfast_slurm_reachable"), legend="slurmctld"),
                    ],
                ),
                Panel(
                    title="Probes",
                    about="0: no answer.",
                    queries=[Query(expr=_of("holdfast_probe_up"), legend="{{probe}}")],
                ),
                Panel(
                    title="Open findings",
                    about="What checks see now.",
                    queries=[
                        Query(
                            expr="count by (code, check, subject, severity, mode) ("
                            + _of("holdfast_finding_open")
                            + ")",
                            legend="{{code}}",
                        )
                    ],
                    kind="table",
                    width=16,
                ),
                Panel(
                    title="Events",
                    about="Recorded in the history, each hour.",
                    queries=[
                        Query(
                            expr=_of("increase(holdfast_events_total[1h])"),
                            legend="{{event}}",
                        )
                    ],
                ),
            ],
        ),
        *_hardware(""),
        Row(
            title="Agent",
            panels=[
                Panel(
                    title="Pass",
                    about="Mean duration of a pass.",
                    queries=[
                        Query(
                            expr=_of(
                                "(rate(holdfast_agent_pass_seconds_total[5m])"
                                " / rate(holdfast_agent_passes_total[5m]))",
                            ),
                            legend="mean",
                        )
                    ],
                    unit="s",
                ),
                Panel(
                    title="Clock",
                    about="This node's clock minus slurmctld's.",
                    queries=[Query(expr=_of("holdfast_clock_skew_seconds"), legend="skew")],
                    unit="s",
                ),
                Panel(
                    title="History",
                    about="Events not written yet, and failed writes in a row.",
                    queries=[
                        Query(
                            expr=_of("holdfast_history_unwritten_events"),
                            legend="unwritten",
                        ),
                        Query(expr=_of("holdfast_history_write_failures"), legend="failures"),
                    ],
                ),
            ],
        ),
    ],
)

JOB = Dashboard(
    name="job",
    title="Holdfast: nodes of a job",
    about="The nodes of one job side by side: choose them (scontrol show hostnames LIST, or"
    " holdfast explain JOB) and the time in which it ran.",
    variable="node",
    several=True,
    rows=[
        Row(
            title="Nodes",
            panels=[
                Panel(
                    title="Verdicts other than ok",
                    about="1 while a node has this verdict.",
                    queries=[
                        Query(
                            expr=_of('holdfast_node_status{status!="ok"}'),
                            legend="{{node}} {{status}}",
                        )
                    ],
                ),
                Panel(
                    title="Open findings",
                    about="On each node.",
                    queries=[
                        Query(
                            expr="count by (node, code) (" + _of("holdfast_finding_open") + ")",
                            legend="{{node}} {{code}}",
                        )
                    ],
                ),
                Panel(
                    title="Events",
                    about="Recorded in the history, each hour.",
                    queries=[
                        Query(
                            expr="sum by (node, event) ("
                            + _of("increase(holdfast_events_total[1h])")
                            + ")",
                            legend="{{node}} {{event}}",
                        )
                    ],
                ),
            ],
        ),
        *_hardware("{{node}} "),
    ],
)
