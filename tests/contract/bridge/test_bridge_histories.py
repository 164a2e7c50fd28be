"""Random histories of persons, agents, slurm-operator, replaced machines and killed bridges, on a real slurmctld
and a real API server together. Each run has other histories (``tests/contract/histories.py``), for 30 s;
``HOLDFAST_BRIDGE_HISTORIES_S=3600`` has more of them, and ``HOLDFAST_BRIDGE_HISTORY=NAME`` repeats one that failed.
"""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from measure.bridge.many_nodes import ManySlurmNodes
from testbed.kube.local import ApiServer
from testbed.paths import cache
from testbed.rootfs import roots

from k8s_bridge.config import BridgeConfig
from tests.contract.histories import steps, various
from tests.contract.real_nodes import RealCluster
from tests.contract.real_slurm import USER, RealSlurm
from tests.unit.k8s_bridge.fake_cluster import Violation
from tests.unit.k8s_bridge.strangers import WORKERS, run_steps

LASTS_S = float(os.environ.get("HOLDFAST_BRIDGE_HISTORIES_S", "30"))
REPEATED = os.environ.get("HOLDFAST_BRIDGE_HISTORY", "")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a slurmctld of its own needs root"),
    pytest.mark.one_release,
    pytest.mark.timeout(LASTS_S + 600),
]


@pytest.fixture
def slurm(release: str, tmp_path: Path) -> Iterator[ManySlurmNodes]:
    root = roots.ensure(release, cache(), print)
    with ManySlurmNodes(root, tmp_path / "slurm", WORKERS, "worker") as running:
        yield running


def test_no_decision_is_lost_and_a_fixed_point_is_reached(
    api_server: ApiServer, bridge_policy: BridgeConfig, slurm: ManySlurmNodes
) -> None:
    policy = dataclasses.replace(bridge_policy, slurm_user=USER)
    end = time.monotonic() + LASTS_S
    for done, name in enumerate([REPEATED] if REPEATED else various(str(time.time_ns()))):
        if done and time.monotonic() > end:
            break
        chance = random.Random(name)
        names = steps(chance)
        cluster = RealCluster(api_server, policy, partial(RealSlurm, slurm))
        try:
            run_steps(names, cluster.policy, chance, cluster)
        except Violation as error:
            raise Violation(f"HOLDFAST_BRIDGE_HISTORY={name}: {error}") from None
        finally:
            cluster.remove()
