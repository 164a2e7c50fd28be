"""``holdfast bridge --plan`` and ``--node``: both sides as the bridge sees them, without a write."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.cli.commands.explain.node_text import kubernetes_lines
from holdfast.cli.console import complain, say, say_json, screen_width
from holdfast.config.kill_switch_files import ALL, switches_off
from holdfast.config.kill_switches import described
from holdfast.slurm.client import SlurmClient, SlurmNode
from holdfast.text.wording import counted
from holdfast.vocabulary import SlurmName
from k8s_bridge.config import SWITCH, BridgeConfig
from k8s_bridge.kube.api import Kube, KubeNotFound
from k8s_bridge.model.changes import Change, UpdateStatus
from k8s_bridge.model.disruption import Disruption
from k8s_bridge.model.node_mapping import kube_name
from k8s_bridge.model.ownership import Origin
from k8s_bridge.model.snapshot import KubeNode, is_cordoned_by_others
from k8s_bridge.names import FIELD_MANAGER
from k8s_bridge.planning.plan import plan
from k8s_bridge.planning.planner import Planner
from k8s_bridge.planning.signals import Signals
from k8s_bridge.rules.rule import Rule


class Look(NamedTuple):
    """One look at Slurm, with what the bridge needs for a plan. ``off``: a kill switch stops all actions.
    ``pods``: the worker pods that Kubernetes ends. ``domains``: the nodes' leaf switches or blocks.
    """

    slurm: Sequence[SlurmNode]
    kube: Kube
    policy: BridgeConfig
    switches: Sequence[str]
    off: bool
    pods: Mapping[SlurmName, Disruption] = {}
    domains: Mapping[SlurmName, str] = {}


def look(slurm: SlurmClient, kube: Kube, policy: BridgeConfig, path: Path) -> Look:
    """Read Slurm and the kill switches. Raises ``HoldfastError``."""
    off = bool(switches_off(path) & {ALL, SWITCH})
    switches = [line for line in described(path, ()) if "no effect" not in line]
    return Look(slurm.nodes(), kube, policy, switches, off)


def show_plan(found: Look, *, as_json: bool) -> int:
    """The pending changes. Returns 1 if there are any, else 0."""
    now = datetime.now(timezone.utc)
    listed = found.kube.list_nodes()[0]
    kube = Signals(found.policy).look(found.slurm, listed, now, found.pods, found.domains)
    planner = Planner(found.policy)
    changes = planner.plan(found.slurm, kube, now)
    rows = _rows(changes, found)
    if as_json:
        say_json(rows, indent=None)
        return 1 if rows else 0
    for switch in found.switches:
        say(switch)
    for row in rows:
        say(_line(row))
    say(_last_line(rows, found, kube, len(planner.mapping.pairs)))
    return 1 if rows else 0


def _line(row: dict[str, Any]) -> str:
    names = f"{row['node']} ({row['slurm']})" if row["slurm"] else f"{row['node']} (not in Slurm)"
    left_out = ("node", "slurm", "change", "blocked_by_kill_switch")
    details = " ".join(f"{key}={value}" for key, value in row.items() if key not in left_out)
    blocked = " [blocked by the kill switch]" if row["blocked_by_kill_switch"] else ""
    return f"{names}: {row['change']} {details}".rstrip() + blocked


def _last_line(
    rows: Sequence[dict[str, Any]], found: Look, kube: Sequence[KubeNode], mapped: int
) -> str:
    sides = (
        f"{counted(len(found.slurm), 'Slurm node')}, {counted(len(kube), 'Kubernetes Node')}, "
        f"{mapped} of them mapped"
    )
    if not rows:
        return f"Slurm and Kubernetes are consistent: no changes ({sides})"
    nodes = len({row["node"] for row in rows})
    blocked = sum(row["blocked_by_kill_switch"] for row in rows)
    stopped = f", {blocked} blocked by the kill switch" if blocked else ""
    return f"{counted(len(rows), 'change')} for {counted(nodes, 'node')}{stopped} ({sides})"


def _rows(changes: Sequence[Change], found: Look) -> list[dict[str, Any]]:
    """The planned changes as JSON, with stable keys: ``node`` (Kubernetes), ``slurm``, ``change``,
    ``blocked_by_kill_switch``, and what it writes.
    """
    names = {kube_name(node, found.policy): node.name for node in found.slurm}
    return [_row(change, names.get(change.kube.name), off=found.off) for change in changes]


def _row(change: Change, slurm: str | None, *, off: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "node": change.kube.name,
        "slurm": slurm,
        "change": type(change).__name__,
        "blocked_by_kill_switch": off and not isinstance(change, UpdateStatus),
    }
    for field in dataclasses.fields(change):
        value = getattr(change, field.name)
        if field.name not in row and field.name != "kube":
            row[field.name] = value.name if isinstance(value, SlurmNode) else _plain(value)
    return row


def show_node(found: Look, name: str, *, as_json: bool) -> int:
    """Both sides of one node. Returns 1 if neither side knows the name."""
    report = node_report(found, name)
    if report is None:
        complain(f"holdfast bridge: neither Slurm nor Kubernetes knows a node {name}")
        return 1
    if as_json:
        say_json(report)
    else:
        say(f"{report['slurm'] or 'not in Slurm'}")
        say(kubernetes_lines(report, width=screen_width()))
    return 0


def slurm_name(found: Look, name: str) -> str:
    """The name in Slurm of the node with that name in Slurm or in Kubernetes; empty: Slurm knows none."""
    return next((n.name for n in found.slurm if name in (n.name, kube_name(n, found.policy))), "")


def node_report(found: Look, name: str) -> dict[str, Any] | None:
    """The Kubernetes side of the node with that name in Slurm or in Kubernetes. None: neither knows it."""
    policy = found.policy
    node = next((n for n in found.slurm if n.name == name), None)
    if node is None:
        # Slurm's name first: in a cluster where both sides use the same names they may be of
        # different machines.
        node = next((n for n in found.slurm if kube_name(n, policy) == name), None)
    wanted = kube_name(node, policy) if node else name
    try:
        view = found.kube.node(wanted) if wanted else None  # type: ignore[arg-type] # as typed
    except KubeNotFound:
        view = None
    if view is None and node is None:
        return None
    report = {
        "slurm": node.name if node else None,
        "kubernetes": view.name if view else None,
        "mapped_to": wanted or None,
        "kill_switches": list(found.switches),
    }
    if view is None:
        return report
    claims = [n for n in found.slurm if kube_name(n, policy) == view.name]
    now = datetime.now(timezone.utc)
    changes = plan(claims, [_with_rules(view, found, now)], policy, now)
    return {
        **report,
        "claimed_by": [n.name for n in claims],
        "cordoned": view.unschedulable,
        "cordoned_by": _cordoned_by(view),
        "taint": view.taint,
        "record": _plain(view.record) if view.record else None,
        "conditions": [_plain(each) for _, each in sorted(view.conditions.items())],
        "changes": _rows(changes, found),
        "how_to_uncordon": _undo(view),
    }


def _with_rules(view: KubeNode, found: Look, now: datetime) -> KubeNode:
    """The Node with the rules that hold for it. All Nodes are read only if a drain may follow, which depends
    on how many others it would follow for too.
    """

    def look(views: Sequence[KubeNode]) -> KubeNode:
        shown = Signals(found.policy).look(found.slurm, views, now, found.pods, found.domains)
        return next((each for each in shown if each.name == view.name), view)

    alone = look([view])
    if not any(not cause.withheld for cause in alone.causes):
        return alone
    return look(found.kube.list_nodes()[0])


def _cordoned_by(view: KubeNode) -> str:
    if not view.unschedulable:
        return ""
    if is_cordoned_by_others(view):
        return view.cordoned_by or "other"
    return FIELD_MANAGER


def _undo(view: KubeNode) -> str:
    """One sentence: what returns the Node."""
    if view.unschedulable and is_cordoned_by_others(view):
        return f"kubectl uncordon {view.name} ends the cordon of {view.cordoned_by or 'others'}."
    record = view.record
    if record is not None and record.origin is Origin.SLURM and (record.cordon or record.taint):
        return "The bridge removes its cordon and taint when the drain in Slurm ends."
    return ""


def _plain(value: Any) -> Any:
    if isinstance(value, Rule):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
