"""Planning only what changed leads to the same changes as planning everything."""

from __future__ import annotations

import random
from dataclasses import replace

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import KubeName, SlurmName
from k8s_bridge.model.changes import Change
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.planning.planner import Planner
from tests.unit.k8s_bridge.fake_cluster import AGENT, HUMAN, NOON, FakeCluster

NODES = 6


def test_the_same_changes_as_from_the_beginning() -> None:
    chance = random.Random(11)
    cluster = FakeCluster(NODES)
    planner = Planner(cluster.policy)
    slurm: list[SlurmNode] = []
    kube: list[KubeNode] = []
    for _ in range(150):
        disturb(cluster, chance)
        slurm = same_objects(slurm, cluster.slurm.nodes())
        kube = same_objects(kube, cluster.kube.list_nodes()[0])
        changes = planner.plan(slurm, kube, NOON)
        assert contents(changes) == contents(Planner(cluster.policy).plan(slurm, kube, NOON))
        if chance.random() < 0.4:
            cluster.apply(changes)


def disturb(cluster: FakeCluster, chance: random.Random) -> None:
    i = chance.randrange(NODES)
    worker, node = SlurmName(f"worker-{i}"), f"computeinstance-{i}"
    what = chance.randrange(6)
    if what == 0:
        cluster.slurm.set_drain(worker, "holdfast:XID79: x", AGENT)
    elif what == 1:
        cluster.slurm.clear_drain(worker)
    elif what == 2:
        cluster.slurm.set_drain(worker, "swapping DIMM", HUMAN)
    elif what == 3:
        cluster.kube.cordon(node, chance.random() < 0.5)
    elif what == 4:  # moves to another machine, where another worker may be
        other = f"computeinstance-{chance.randrange(NODES + 1)}"
        cluster.slurm.by_name[worker] = replace(cluster.slurm.by_name[worker], instance_id=other)
    else:
        cluster.slurm.clear_drain(worker)
        cluster.slurm.set_state(worker, chance.choice(("IDLE", "ALLOCATED", "DOWN")))


def same_objects(old: list, new: list) -> list:  # type: ignore[type-arg]
    """As the real views do: an equal node is the same object."""
    known = {node.name: node for node in old}
    return [known[node.name] if known.get(node.name) == node else node for node in new]


def contents(changes: list[Change]) -> set[tuple[str, str, str]]:
    return {(type(c).__name__, c.kube.name, repr(c)) for c in changes}


def test_the_isolation_stays_with_the_machine() -> None:
    """Defect 4 of the scale test: a healthy replacement was isolated, and the old Node never released."""
    cluster = FakeCluster(1)
    cluster.kube.add("computeinstance-new")
    worker = SlurmName("worker-0")
    cluster.slurm.set_drain(worker, "holdfast:XID79: gpu 3", AGENT)
    cluster.settle()
    assert cluster.view().unschedulable
    moved = replace(cluster.slurm.by_name[worker], instance_id="computeinstance-new")
    cluster.slurm.by_name[worker] = moved
    cluster.settle()
    new = cluster.kube.node(KubeName("computeinstance-new"))
    assert (new.unschedulable, new.taint) == (False, None)
    assert cluster.view().unschedulable, "the drain of its machine stands"
    cluster.slurm.clear_drain(worker)
    cluster.settle()
    assert (cluster.view().unschedulable, cluster.view().taint) == (False, None)
    cluster.slurm.set_drain(worker, "holdfast:XID48: gpu 1", AGENT)
    cluster.settle()
    assert cluster.kube.node(KubeName("computeinstance-new")).unschedulable
    assert not cluster.view().unschedulable
