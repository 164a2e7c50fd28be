"""Rules and states on a real API server: what others write on a Node, and what the bridge may write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from testbed.kube.local import ApiServer

from holdfast.vocabulary import KubeName, SlurmName
from holdfast.vocabulary import NodeState as S
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.client import KubeApi
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.names import CONDITIONS, DRAINED, MAINTENANCE, RULES_LABEL
from k8s_bridge.planning.plan import plan
from k8s_bridge.planning.signals import Signals
from k8s_bridge.rules.rule import RuleMode
from k8s_bridge.rules.settings import BridgeBudget, RuleSettings
from k8s_bridge.state_table import Isolation
from k8s_bridge.writes.apply import Applier
from tests.unit.k8s_bridge.fake_cluster import Clock, FakeSlurm

NODE = KubeName("computeinstance-0")
WORKER = SlurmName("worker-0")
GPU = "NebiusGPUError"
SPOT = "aws-node-termination-handler/spot-itn"


class Cluster:
    """A real API server, the bridge's own account on it, and a fake Slurm (``test_slurm`` holds it against
    the real one)."""

    def __init__(self, admin: ApiServer, access: BridgeConfig):
        self.admin = admin
        self.policy = BridgeConfig(
            kubeconfig=access.kubeconfig,
            timeout_s=access.timeout_s,
            rules=(
                RuleSettings(use="nebius-gpu-error", mode=RuleMode.DRAIN, hold_s=0, clear_s=0),
                RuleSettings(use="spot-aws", mode=RuleMode.DRAIN, clear_s=0),
            ),
            budget=BridgeBudget(incident_share=1),
            isolate={"DOWN": Isolation.TAINT},
        )
        self.kube = KubeApi(self.policy)
        self.clock = Clock()
        self.slurm = FakeSlurm(self.clock)
        self.slurm.add(WORKER, NODE)
        self.signals = Signals(self.policy)

    def settle(self) -> None:
        for _ in range(3):
            self.clock.now = datetime.now(timezone.utc)
            nodes = self.slurm.nodes()
            kube = self.signals.look(nodes, self.kube.list_nodes()[0], self.clock.now)
            changes = plan(nodes, kube, self.policy, self.clock.now)
            Applier(self.slurm, self.kube, self.policy.slurm_user).apply(changes)

    def show(self, condition: str, status: str) -> None:
        row = {"type": condition, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        self.patch({"status": {"conditions": [row]}}, "--subresource=status")

    def patch(self, patch: object, *words: str) -> None:
        self.admin.kubectl("patch", "node", NODE, "-p", json.dumps(patch), *words)

    def set_states(self, *states: S) -> None:
        self.slurm.by_name[WORKER] = replace(self.slurm.by_name[WORKER], states=frozenset(states))

    @property
    def drained(self) -> bool:
        return self.slurm.by_name[WORKER].drained_flag

    @property
    def node(self) -> KubeNode:
        return self.kube.node(NODE)


@pytest.fixture
def cluster(api_server: ApiServer, bridge_policy: BridgeConfig) -> Iterator[Cluster]:
    made = Cluster(api_server, bridge_policy)
    yield made
    gone = [{"type": kind, "$patch": "delete"} for kind in (*CONDITIONS, GPU)]
    made.patch({"status": {"conditions": gone}}, "--subresource=status")
    notes = {"holdfast.dev/record": None, "holdfast.dev/origin": None}
    made.patch({"metadata": {"labels": {RULES_LABEL: None}, "annotations": notes}})
    made.patch({"spec": {"taints": None, "unschedulable": None}}, "--type=merge")


def test_a_condition_of_others_drains_and_its_end_undrains(cluster: Cluster) -> None:
    cluster.show(GPU, "True")
    cluster.settle()
    assert cluster.drained
    assert cluster.slurm.by_name[WORKER].reason.startswith("holdfast:KUBE_RULE: ")
    record = cluster.node.record
    assert record is not None
    assert record.causes == ("nebius-gpu-error",)
    assert cluster.node.conditions[DRAINED].status == "True"
    assert cluster.node.foreign_status(GPU) == "True", "others' conditions are kept"
    cluster.show(GPU, "False")
    cluster.settle()
    assert not cluster.drained
    assert cluster.node.record is None


def test_a_taint_drains_and_the_opt_out_label_returns(cluster: Cluster) -> None:
    cluster.admin.kubectl("taint", "node", NODE, f"{SPOT}=id:NoSchedule")
    cluster.settle()
    assert cluster.drained
    cluster.admin.kubectl("label", "node", NODE, f"{RULES_LABEL}=off", "--overwrite")
    cluster.settle()
    assert not cluster.drained
    assert (SPOT, "id") in cluster.node.foreign_taints, "others' taints are kept"


def test_states_are_written_and_isolated_with_the_bridges_rights(cluster: Cluster) -> None:
    cluster.settle()
    assert MAINTENANCE not in cluster.node.conditions
    cluster.set_states(S.IDLE, S.MAINTENANCE)
    cluster.settle()
    assert cluster.node.conditions[MAINTENANCE].status == "True"
    cluster.set_states(S.DOWN, S.NOT_RESPONDING)
    cluster.settle()
    assert cluster.node.taint == "DOWN"
    assert cluster.node.conditions[MAINTENANCE].status == "False"
    cluster.set_states(S.IDLE)
    cluster.settle()
    assert cluster.node.taint is None
    assert cluster.node.record is None
