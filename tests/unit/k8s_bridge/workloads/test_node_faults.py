"""Which Nodes have a fault for which workloads are restarted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from holdfast.vocabulary import KubeName
from k8s_bridge.model.ownership import BridgeRecord, Origin
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.rules.catalogue import BUILT_IN
from k8s_bridge.rules.rule import Cause, RuleMode
from k8s_bridge.workloads.node_faults import NodeFault, node_faults

NOW = 1_800_000_000.0
AT = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
N0 = KubeName("node-0")
HEALTHY = KubeNode(name=N0, uid="uid-0")
LONG_AGO = "2020-01-01T00:00:00Z"


def find(
    *views: KubeNode, gone: frozenset[KubeName] = frozenset(), others: int = 9
) -> Mapping[KubeName, NodeFault]:
    all_views = [*views, *(KubeNode(name=KubeName(f"other-{i}")) for i in range(others))]
    by_name = {view.name: view for view in all_views}
    return node_faults(by_name, gone, not_ready_s=60, incident_share=0.5, now=NOW)


def drained(reason: str, **fields: object) -> KubeNode:
    record = BridgeRecord(origin=Origin.SLURM, reason=reason, by="root", at=AT, cordon=True)
    made = replace(HEALTHY, record=record, unschedulable=True)
    return replace(made, **fields)  # type: ignore[arg-type]


def ready(status: str, since: str = LONG_AGO) -> KubeNode:
    return replace(HEALTHY, other_conditions=f"\nReady\t{status}\n", other_since=since)


def cause(name: str, **fields: object) -> Cause:
    rule = replace(BUILT_IN[name], mode=RuleMode.DRAIN)
    return Cause(rule, f"rule {name}")._replace(**fields)  # type: ignore[arg-type]


def test_a_healthy_node_has_none() -> None:
    assert find(HEALTHY, ready("True")) == {}


@pytest.mark.parametrize(
    ("code", "fatal"), [("XID79", True), ("DISK_FULL", False), ("SOMETHING_NEW", False)]
)
def test_a_drain_by_holdfast(code: str, fatal: bool) -> None:
    found = find(drained(f"holdfast:{code}: x"))[N0]
    assert (found.code, found.fatal, found.closed) == (code, fatal, True)


def test_each_drain_is_an_incident_of_its_own() -> None:
    first = drained("holdfast:XID79: x")
    assert first.record is not None
    again = replace(first, record=replace(first.record, at=AT.replace(hour=13)))
    assert find(first)[N0].key == find(first)[N0].key
    assert find(first)[N0].key != find(again)[N0].key
    assert find(first)[N0].key != find(replace(first, uid="replaced"))[N0].key


@pytest.mark.parametrize(
    "view",
    [
        replace(HEALTHY, unschedulable=True, cordoned_by="kubectl-cordon"),
        drained("maintenance of the rack"),
        drained("state DOWN"),
        replace(HEALTHY, record=BridgeRecord(origin=Origin.KUBERNETES, reason="holdfast:KUBE_CORDON: x")),
    ],
    ids=["cordon", "a person's drain", "state", "drained for a cordon"],
)  # fmt: skip
def test_what_people_do_is_no_fault(view: KubeNode) -> None:
    assert find(view) == {}


def test_a_node_whose_isolation_somebody_removed_is_not_closed() -> None:
    view = drained("holdfast:XID79: x", unschedulable=False)
    assert not find(view)[N0].closed
    assert find(replace(view, taint="XID79"))[N0].closed


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_not_ready_counts_after_its_time(status: str) -> None:
    recent = datetime.fromtimestamp(NOW - 59, timezone.utc)
    assert find(ready(status, f"{recent:%Y-%m-%dT%H:%M:%SZ}")) == {}
    assert find(ready(status, "")) == {}
    found = find(ready(status))[N0]
    assert (found.code, found.fatal, found.closed, found.withheld) == ("NotReady", True, True, "")


def test_a_rule_in_mode_drain_counts_once_the_node_is_closed() -> None:
    view = replace(HEALTHY, causes=(cause("nebius-gpu-error"),))
    assert not find(view)[N0].closed
    assert find(replace(view, unschedulable=True))[N0].closed
    assert find(replace(HEALTHY, causes=(cause("spot-aws"),)))[N0].closed


def test_a_rule_that_observes_or_is_withheld_restarts_nothing() -> None:
    observed = cause("nebius-gpu-error", rule=BUILT_IN["nebius-gpu-error"])
    assert find(replace(HEALTHY, causes=(observed,))) == {}
    spent = cause("nebius-gpu-error", withheld="the budget is spent")
    assert find(replace(HEALTHY, causes=(spent,)))[N0].withheld == "the budget is spent"


def test_a_deleted_node() -> None:
    found = find(gone=frozenset({N0}))[N0]
    assert (found.fatal, found.closed) == (True, True)


def test_many_nodes_at_once_are_one_incident_of_the_cluster() -> None:
    views = [replace(ready("Unknown"), name=KubeName(f"node-{i}")) for i in range(6)]
    few = find(*views[:5], others=5)
    assert [fault.withheld for fault in few.values()] == [""] * 5
    many = find(*views, others=5)
    assert {fault.withheld for fault in many.values()} == {
        "6 of 11 Nodes have a fault: one incident of the cluster"
    }
    assert find(*views[:2], others=0)[KubeName("node-1")].withheld == "", "a cluster of two"


def test_drains_by_agents_are_within_their_own_budget() -> None:
    views = [replace(drained("holdfast:XID79: x"), name=KubeName(f"node-{i}")) for i in range(6)]
    assert {fault.withheld for fault in find(*views, others=2).values()} == {""}


def test_a_fatal_drain_names_the_fault_of_a_node_that_is_not_ready_too() -> None:
    both = replace(
        drained("holdfast:XID79: x"), other_conditions="\nReady\tFalse\n", other_since=LONG_AGO
    )
    assert find(both)[N0].code == "XID79"
    soft = replace(
        drained("holdfast:DISK_FULL: x"),
        other_conditions=both.other_conditions,
        other_since=LONG_AGO,
    )
    assert find(soft)[N0].code == "NotReady"
