"""Random histories of persons, agents, slurm-operator, replaced machines and killed bridges, with the Nodes on
a real API server and the bridge's own account, rights and admission policy. ``HOLDFAST_BRIDGE_HISTORIES=200``
runs more of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from testbed.kube.local import ApiServer

from k8s_bridge.config import BridgeConfig
from tests.contract.real_nodes import RealCluster
from tests.unit.k8s_bridge.strangers import STEPS, Strangers, run_steps

HISTORIES = int(os.environ.get("HOLDFAST_BRIDGE_HISTORIES", "6"))


@pytest.fixture
def cluster(api_server: ApiServer, bridge_policy: BridgeConfig) -> Iterator[RealCluster]:
    made = RealCluster(api_server, bridge_policy)
    yield made
    made.remove()


@pytest.mark.parametrize("history", range(HISTORIES))
def test_no_decision_is_lost_and_a_fixed_point_is_reached(
    cluster: RealCluster, history: int
) -> None:
    chance = random.Random(f"real/{history}")
    run_steps(chance.choices(sorted(STEPS), k=16), cluster.policy, chance, cluster)


def test_each_write_can_be_the_last_one(cluster: RealCluster) -> None:
    """A fault, and the bridge is killed at its first, second, … write, until it has no more to write."""
    world = Strangers(cluster.policy, random.Random(1), cluster=cluster)
    world.settle()
    kills = 0
    for step in ("agent_drains", "agent_returns", "human_cordons", "human_uncordons"):
        world.chance = random.Random(1)
        STEPS[step](world)
        while cluster.round_that_is_killed(0, before_last=False):
            kills += 1
            world.check()
        assert world.settle() == 0, step
    assert kills >= 8
