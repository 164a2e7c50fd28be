"""Which Nodes have a fault for which workloads are restarted. Pure.

A fault counts once the Node takes no new pods: only then the pods start on other nodes. What closes it is
what the bridge, a person or Kubernetes does anyway (cordon, taint, NotReady): nothing here changes a Node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from holdfast.faults import fault_of
from holdfast.reason import Reason
from holdfast.vocabulary import KubeName, Severity
from k8s_bridge.model.ownership import Origin
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.rules.rule import RuleMode

SMALLEST_CLUSTER = 3
"""Nodes. In a smaller cluster, one node is no sign of an incident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFault:
    """``code``: a fault's code, a rule's name, or what Kubernetes shows. ``key``: equal for the same incident.
    ``fatal``: pods that still run on the node are lost too. ``closed``: the Node takes no new pods.
    ``withheld``: why no restart follows; empty: one does.
    """

    code: str
    key: str
    fatal: bool
    closed: bool
    withheld: str = ""


def node_faults(
    views: Mapping[KubeName, KubeNode],
    gone: frozenset[KubeName],
    *,
    not_ready_s: float,
    incident_share: float,
    now: float,
) -> Mapping[KubeName, NodeFault]:
    """The fault of each Node that has one. ``gone``: Nodes that do not exist any more; ``now``: epoch seconds.

    Drains by agents are within the agents' budget. What Kubernetes shows of more than ``incident_share`` of
    all Nodes at once is one incident of the cluster (its network, its control plane), and restarts nothing.
    """
    drained: dict[KubeName, NodeFault] = {}
    shown = {name: _fault("the Node was deleted", name, "", closed=True) for name in gone}
    for name, view in views.items():
        own = _drained(view)
        other = next(_shown(view, not_ready_s, now), None)
        if own is not None and (own.fatal or other is None):
            drained[name] = own
        elif other is not None:
            shown[name] = other
    total = len(views) + len(gone)
    if total >= SMALLEST_CLUSTER and len(shown) > incident_share * total:
        why = f"{len(shown)} of {total} Nodes have a fault: one incident of the cluster"
        shown = {name: replace(each, withheld=why) for name, each in shown.items()}
    return shown | drained


def _drained(view: KubeNode) -> NodeFault | None:
    """The fault for which Holdfast drained the node in Slurm and isolated the Node."""
    record = view.record
    if record is None or record.origin is not Origin.SLURM or not (record.cordon or record.taint):
        return None
    reason = Reason.parse(record.reason)
    if reason is None:
        return None
    fault = fault_of(reason.code)
    return NodeFault(
        code=reason.code,
        key=f"{view.uid} {reason.code} {record.at}",
        # What any user with a job on the node can cause ends nobody else's pods.
        fatal=fault.severity is Severity.FATAL and not fault.by_users,
        closed=is_closed(view),
    )


def _shown(view: KubeNode, not_ready_s: float, now: float) -> Iterator[NodeFault]:
    """What Kubernetes shows: NotReady, then rules in mode drain."""
    since = view.foreign_since("Ready")
    if not _is_ready(view) and since is not None and now - since >= not_ready_s:
        yield _fault("NotReady", view.uid, str(since), closed=True)
    for cause in view.causes:
        if cause.rule.mode is RuleMode.DRAIN:
            closed = is_closed(view) or bool(cause.rule.taint)
            since = cause.rule.since(view)
            fault = _fault(f"rule {cause.rule.name}", view.uid, str(since), closed=closed)
            yield replace(fault, withheld=cause.withheld)


def _fault(code: str, uid: str, since: str, *, closed: bool) -> NodeFault:
    return NodeFault(code=code, key=f"{uid} {code} {since}", fatal=True, closed=closed)


def _is_ready(view: KubeNode) -> bool:
    return view.foreign_status("Ready") not in ("False", "Unknown")


def is_closed(view: KubeNode) -> bool:
    """Does the scheduler put no new pod there, unless the pod tolerates every taint?"""
    return view.gone or view.unschedulable or view.taint is not None or not _is_ready(view)
