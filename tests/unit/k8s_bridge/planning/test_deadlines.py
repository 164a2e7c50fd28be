"""Machines that are going to be stopped: the reason in Slurm tells running jobs to leave, and by when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast.reason import Reason
from holdfast.records.leave import Leave, leave_of
from k8s_bridge.model.disruption import Disruption
from k8s_bridge.model.snapshot import project
from k8s_bridge.rules.rule import JobsMode, RuleMode
from k8s_bridge.rules.settings import RuleSettings
from tests.unit.k8s_bridge.fake_cluster import NOON
from tests.unit.k8s_bridge.planning.fake_rule_cluster import GPU, W0, RuleCluster, draining

NEBIUS = "NebiusMaintenanceScheduled"
SPOT = "aws-node-termination-handler/spot-itn"
AT = NOON.timestamp()


def leave(cluster: RuleCluster, i: int = 0) -> Leave | None:
    reason = Reason.parse(cluster.node(i).reason)
    assert reason is not None, cluster.node(i).reason
    return leave_of(reason)


def test_the_deadline_of_the_condition_is_in_the_reason() -> None:
    cluster = RuleCluster(draining("nebius-maintenance"))
    cluster.show(
        NEBIUS, "True", says="Maintenance is scheduled, SLA deadline is 2026-11-20T18:00:00Z."
    )
    cluster.settle()
    assert cluster.drained() == [W0]
    assert leave(cluster) == Leave(AT + 5 * 3600), "Nebius wants jobs to end an hour before"


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("SLA deadline is 2026-11-20T18:00:00Z", 6),
        ("deadline: 2026-11-20T18:00:00.123456+00:00, be quick", 6),
        ("the deadline is 2026-11-20 18:00:00 UTC", 6),
        ("deadline=2026-11-20T20:00:00+02:00", 6),
        ("deadline 2026-11-20T18:00:00", 6),
        ("starts at 2026-11-20T18:00:00Z", None),
        ("deadline 2026-13-41T18:00:00Z", None),
        ("deadline soon", None),
    ],
)
def test_a_deadline_in_a_message(text: str, hours: float | None) -> None:
    row = {"type": NEBIUS, "status": "True", "message": text}
    view = project({"metadata": {"name": "a"}, "status": {"conditions": [row]}})
    found = view.deadline(NEBIUS)
    assert found == (None if hours is None else AT + hours * 3600)
    past = project({"status": {"conditions": [{**row, "status": "False"}]}})
    assert past.deadline(NEBIUS) is None
    assert not view.same_content(replace(view, deadlines=((NEBIUS, 1.0),)))


@pytest.mark.parametrize(
    ("minutes", "until_minutes"), [(120, 60), (40, 10), (65, 10), (8, 8), (-5, -5)]
)
def test_the_hour_before_is_given_up_where_the_deadline_is_near(
    minutes: int, until_minutes: int
) -> None:
    deadline = NOON + timedelta(minutes=minutes)
    cluster = RuleCluster(draining("nebius-maintenance"))
    cluster.show(NEBIUS, "True", says=f"deadline is {deadline:%Y-%m-%dT%H:%M:%SZ}")
    cluster.settle()
    assert leave(cluster) == Leave(AT + until_minutes * 60)


def test_without_a_deadline_jobs_leave_at_their_next_checkpoint() -> None:
    cluster = RuleCluster(draining("nebius-maintenance"))
    cluster.show(NEBIUS, "True", says="soon")
    cluster.settle()
    assert leave(cluster) == Leave(None)


def test_a_spot_notice_counts_from_the_first_time_it_is_seen() -> None:
    cluster = RuleCluster(draining("spot-aws"))
    cluster.settle()
    cluster.kube.raw["computeinstance-0"]["spec"]["taints"].append(
        {"key": SPOT, "value": "id", "effect": "NoSchedule"}
    )
    cluster.kube._touch("computeinstance-0")
    seen = (cluster.clock.now + timedelta(seconds=5)).timestamp()
    cluster.passes(20)
    found = leave(cluster)
    assert found is not None
    assert found.until is not None
    assert seen + 115 <= found.until <= seen + 120


def test_a_site_decides_what_jobs_do() -> None:
    stays: dict[str, Any] = {"hold_s": 0, "jobs": JobsMode.STAY}
    cluster = RuleCluster(draining("nebius-maintenance", **stays))
    cluster.show(NEBIUS, "True", says="deadline 2026-11-20T18:00:00Z")
    cluster.settle()
    assert leave(cluster) is None
    own = RuleSettings(
        name="own", mode=RuleMode.DRAIN, condition="X", jobs=JobsMode.LEAVE, notice_s=900
    )
    cluster = RuleCluster(own)
    cluster.show("X", "True", ago_s=100)
    cluster.settle()
    assert leave(cluster) == Leave(AT + 800)


def test_other_rules_leave_the_jobs_alone() -> None:
    cluster = RuleCluster(draining("nebius-gpu-error"))
    cluster.show(GPU, "True", ago_s=60, says="deadline 2026-11-20T18:00:00Z")
    cluster.settle()
    assert leave(cluster) is None


def test_nodes_with_the_same_deadline_are_one_write() -> None:
    cluster = RuleCluster(draining("nebius-maintenance"), nodes=5)
    for i, second in enumerate((0, 3, 30)):
        cluster.show(NEBIUS, "True", i, says=f"deadline 2026-11-20T18:00:{second:02}Z")
    object.__setattr__(cluster.policy.budget, "max_nodes", 3)
    object.__setattr__(cluster.policy.budget, "incident_share", 1.0)
    cluster.settle()
    assert sorted(map(len, cluster.slurm.drain_calls)) == [1, 2]


def test_a_worker_pod_that_kubernetes_ends_drains_its_node_until_it_is_replaced() -> None:
    cluster = RuleCluster(draining("worker-pod-disrupted"), worker_pods_namespace="slurm", nodes=3)
    cluster.settle()
    ends = Disruption(reason="PreemptionByScheduler", since=AT - 5, until=AT + 300)
    cluster.pods = {W0: ends}
    cluster.settle()
    assert cluster.drained() == [W0]
    assert leave(cluster) == Leave(AT + 300)
    record = cluster.view().record
    assert record is not None
    assert record.causes == ("worker-pod-disrupted",)
    cluster.pods = {}
    cluster.passes(50)
    assert cluster.drained() == [W0]
    cluster.passes(30)
    assert cluster.drained() == []


def test_in_mode_observe_a_disrupted_pod_is_shown_and_the_opt_out_label_hides_it() -> None:
    cluster = RuleCluster(worker_pods_namespace="slurm")
    cluster.pods = {W0: Disruption(reason="DeletionByTaintManager", since=AT - 5, until=AT + 30)}
    cluster.settle()
    shown = cluster.view().conditions["HoldfastSlurmDrained"]
    assert shown.reason == "RuleObserved"
    assert "DisruptionTarget of the worker pod: DeletionByTaintManager" in shown.message
    cluster.label("holdfast.dev/rules", "off")
    cluster.settle()
    assert cluster.view().conditions["HoldfastSlurmDrained"].reason == "NotDrained"


def test_an_unchanged_node_with_a_disrupted_pod_is_the_same_object() -> None:
    cluster = RuleCluster(draining("worker-pod-disrupted"), worker_pods_namespace="slurm", nodes=3)
    cluster.pods = {W0: Disruption(reason="x", since=AT - 5, until=AT + 300)}
    slurm, kube = cluster.slurm.nodes(), cluster.kube.list_nodes()[0]
    first = cluster.signals.look(slurm, kube, cluster.clock.now, cluster.pods)
    second = cluster.signals.look(slurm, kube, cluster.clock.now, cluster.pods)
    assert [a is b for a, b in zip(first, second, strict=True)] == [True] * 3
    third = cluster.signals.look(slurm, kube, cluster.clock.now, {})
    assert third[0].disruption is None
