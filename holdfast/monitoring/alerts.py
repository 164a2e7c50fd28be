"""The alert rules for the metrics of the agent and the bridge. Pure.

Each rule names the node in Slurm: metrics have only the address that Prometheus asks, so a rule of
the agent is joined with ``holdfast_agent_info``, which has the node's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.monitoring import JOIN

CRITICAL, WARNING, INFO = "critical", "warning", "info"

_NODE = "{{ $labels.node }}"
_COUNT = '{{ $value | printf "%.0f" }}'
_DURATION = "{{ $value | humanizeDuration }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """``expr``: PromQL that returns a series for each problem. ``lasts``: how long, before it fires.

    ``summary`` and ``remedy`` are Prometheus' templates: what is wrong, and what to do.
    """

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str
    remedy: str


def _of_node(expr: str) -> str:
    """``expr`` with the label ``node``."""
    return f"({expr}) {JOIN}"


def agent_alerts(drained_percent: str) -> Iterator[Alert]:
    """``drained_percent``: more drained nodes than this share of all are an alert."""
    yield Alert(
        name="HoldfastAgentMissing",
        expr="count by (node) (last_over_time(holdfast_agent_info[1h]))"
        " unless on (node) count by (node) (holdfast_agent_info)",
        lasts="10m",
        severity=CRITICAL,
        summary=f"{_NODE} has no metrics of Holdfast's agent any more",
        remedy=f"Is the node up, and slurmd? On {_NODE}: holdfast check. An hour after the last"
        " metrics this alert ends: remove the node from Slurm, or start its agent.",
    )
    yield Alert(
        name="HoldfastAgentStuck",
        expr=_of_node("time() - holdfast_agent_last_pass_timestamp_seconds > 300"),
        lasts="5m",
        severity=CRITICAL,
        summary=f"The agent of {_NODE} has not finished a pass for {_DURATION}",
        remedy="Its verdict has expired, so hooks treat the node as blind. Read the agent's log.",
    )
    yield Alert(
        name="HoldfastAgentRestarts",
        expr=_of_node("changes(holdfast_agent_start_time_seconds[1h]) > 3"),
        lasts="0m",
        severity=WARNING,
        summary=f"The agent of {_NODE} started {_COUNT} times within an hour",
        remedy="Read the agent's log before each start.",
    )
    yield Alert(
        name="HoldfastBadNodeInService",
        expr=_of_node(
            'holdfast_node_status{status="bad"} == 1'
            " and on (job, instance) holdfast_node_drained == 0"
        ),
        lasts="5m",
        severity=CRITICAL,
        summary=f"{_NODE} has a fatal fault and is not drained",
        remedy=f"holdfast explain {_NODE} shows why: a check in mode observe or comment, a kill"
        " switch, the budget, or slurmctld.",
    )
    yield Alert(
        name="HoldfastNodeOverBudget",
        expr=_of_node("holdfast_node_over_budget == 1"),
        lasts="5m",
        severity=CRITICAL,
        summary=f"{_NODE} stays in service only because the budget is used up",
        remedy="Return repaired nodes to service, or raise node.budget. holdfast status shows what"
        " is drained and by whom.",
    )
    yield Alert(
        name="HoldfastManyNodesDrained",
        expr=f"100 * sum(holdfast_node_drained) / count(holdfast_node_drained) > {drained_percent}",
        lasts="10m",
        severity=WARNING,
        summary=f"{_COUNT} % of the nodes are drained",
        remedy="holdfast status shows which, by whom and why. One fault on many nodes is often a"
        " fault of the fabric, the storage or a new image.",
    )
    yield Alert(
        name="HoldfastNodeNeedsPerson",
        expr=_of_node("holdfast_node_manual_resume_required == 1"),
        lasts="0m",
        severity=WARNING,
        summary=f"{_NODE} failed again after several returns to service",
        remedy=f"holdfast history {_NODE}, then repair or replace it; resume it by hand.",
    )
    yield Alert(
        name="HoldfastProbeSilent",
        expr="min by (node, probe) (" + _of_node("holdfast_probe_up == 0") + ")",
        lasts="10m",
        severity=WARNING,
        summary=f"The probe {{{{ $labels.probe }}}} of {_NODE} gives no answer",
        remedy="Faults that only this probe sees are not detected. On the node: holdfast check.",
    )
    yield Alert(
        name="HoldfastSlurmUnreachable",
        expr=_of_node("holdfast_slurm_reachable == 0"),
        lasts="5m",
        severity=WARNING,
        summary=f"slurmctld does not answer the agent of {_NODE}",
        remedy="No drain and no return to service is possible. Check slurmctld, munge and the network.",
    )
    yield Alert(
        name="HoldfastConfigurationRefused",
        expr=_of_node("holdfast_agent_config_problems > 0"),
        lasts="10m",
        severity=WARNING,
        summary=f"{_NODE} does not accept its configuration file and uses the last good one",
        remedy="holdfast config check FILE shows the line.",
    )
    yield Alert(
        name="HoldfastHistoryNotWritten",
        expr=_of_node("holdfast_history_write_failures > 10"),
        lasts="10m",
        severity=WARNING,
        summary=f"The agent of {_NODE} cannot write its history",
        remedy="Check the filesystem of paths.history: full, read-only, or not mounted.",
    )
    yield Alert(
        name="HoldfastStateNotWritten",
        expr=_of_node('holdfast_finding_open{code="STATE_UNWRITABLE"} == 1'),
        lasts="5m",
        severity=WARNING,
        summary=f"The agent of {_NODE} cannot write its state",
        remedy="Check the disk of paths.state: full or read-only.",
    )
    yield Alert(
        name="HoldfastReturnUnconfirmed",
        expr=_of_node('holdfast_finding_open{code="RETURN_UNCONFIRMED"} == 1'),
        lasts="15m",
        severity=INFO,
        summary=f"Accounting has not confirmed the last return of {_NODE} to service",
        remedy="Check slurmdbd.",
    )
    yield Alert(
        name="HoldfastKernelLogLost",
        expr=_of_node("increase(holdfast_kernel_log_lost_records_total[1h]) > 0"),
        lasts="0m",
        severity=INFO,
        summary=f"{_NODE} lost records of its kernel log before they were read",
        remedy="An Xid may be among them. Something writes to the kernel log very fast: dmesg.",
    )


def bridge_alerts() -> Iterator[Alert]:
    yield Alert(
        name="HoldfastBridgeMissing",
        expr="absent(holdfast_bridge_info)",
        lasts="10m",
        severity=CRITICAL,
        summary="Holdfast's bridge has no metrics",
        remedy="Kubernetes no longer follows Slurm's drains. Look at the pod and its log.",
    )
    yield Alert(
        name="HoldfastBridgeStale",
        expr="max by (side) (holdfast_bridge_snapshot_age_seconds) > 60",
        lasts="2m",
        severity=CRITICAL,
        summary=f"The bridge has had no answer of {{{{ $labels.side }}}} for {_DURATION}",
        remedy="Slurm or the API server does not answer, or the bridge hangs. Read its log; an"
        " expired token is reported as a protocol authentication error.",
    )
    yield Alert(
        name="HoldfastBridgeFails",
        expr="sum(increase(holdfast_bridge_failed_passes_total[15m])) > 3",
        lasts="0m",
        severity=WARNING,
        summary=f"{_COUNT} passes of the bridge ended with an error within 15 minutes",
        remedy="Read the bridge's log.",
    )
    yield Alert(
        name="HoldfastBridgeRefused",
        expr="sum by (change) (increase(holdfast_bridge_refusals_total[1h])) > 0",
        lasts="0m",
        severity=WARNING,
        summary="Slurm or the API server refused changes of the kind {{ $labels.change }}",
        remedy="A right is missing, or an admission policy denies the change. Read the bridge's log.",
    )
    yield Alert(
        name="HoldfastBridgeConfigurationRefused",
        expr="max(holdfast_bridge_configuration_invalid) == 1",
        lasts="10m",
        severity=WARNING,
        summary="The bridge does not accept its configuration file and uses the last good one",
        remedy="Read the bridge's log: it names each problem with its line.",
    )
    yield Alert(
        name="HoldfastBridgeKillSwitchActive",
        expr="max(holdfast_bridge_kill_switch_active) == 1",
        lasts="1h",
        severity=INFO,
        summary="A kill switch stops all actions of the bridge",
        remedy="When the reason is gone: kubectl delete configmap holdfast-off in its namespace.",
    )
