"""Random histories beside an operator that really runs, for some time, and what was seen in them."""

from __future__ import annotations

import dataclasses
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from measure.bridge.many_nodes import ManySlurmNodes
from testbed.kube.local import ApiServer
from testbed.paths import cache
from testbed.rootfs import roots

from k8s_bridge.config import BridgeConfig
from tests.contract.operators import slinky, soperator
from tests.contract.operators.beside import Beside, BesideSlurm, names_of
from tests.contract.operators.manager import jwt_key
from tests.contract.real_nodes import RealCluster
from tests.contract.real_slurm import USER
from tests.unit.k8s_bridge.fake_cluster import Violation
from tests.unit.k8s_bridge.strangers import WORKERS

RELEASE = "26.05"
"""Of Slurm: that with the version of slurmrestd's API (v0.0.44) which both operators speak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """``variable``: of the environment, which names the program. ``user``: of the operator in Slurm. ``first``: the
    steps of the first history, in which it drains and undrains."""

    variable: str
    user: str
    first: Sequence[str]
    start: Callable[..., slinky.Slinky | soperator.Soperator]


def _around(begin: str, end: str) -> Sequence[str]:
    return (begin, "operator_looks", "bridge_looks", end, "operator_looks", "bridge_looks")


PROJECTS: Mapping[str, Project] = {
    "slinky": Project(
        variable="HOLDFAST_SLINKY_MANAGER",
        user=slinky.USER,
        first=_around("human_cordons", "human_uncordons"),
        start=slinky.Slinky,
    ),
    "soperator": Project(
        variable="HOLDFAST_SOPERATORCHECKS",
        user=soperator.USER,
        first=_around("maintenance_begins", "maintenance_ends"),
        start=soperator.Soperator,
    ),
}


@dataclass(slots=True, kw_only=True)
class Record:
    """``seen``: what the operator did in Slurm. ``taken``: what it took from persons."""

    histories: int = 0
    steps: int = 0
    bridge_writes: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    taken: tuple[str, ...] = ()


def run(
    project: str,
    program: Path,
    server: ApiServer,
    bridge: BridgeConfig,
    folder: Path,
    *,
    lasts_s: float,
    only: str = "",
) -> Record:
    """``bridge``: with its kubeconfig. ``only``: the name of one history. Raises ``Violation`` with the name of the
    history in which the bridge did something wrong, or in which they did not come to rest.
    """
    made, key = PROJECTS[project], jwt_key()
    policy = dataclasses.replace(bridge, slurm_user=USER)
    root = roots.ensure(RELEASE, cache(), print)
    record, end = Record(), time.monotonic() + lasts_s
    with ManySlurmNodes(root, folder / "slurm", WORKERS, "worker", made.user, key) as slurm:
        operator = made.start(program, server, slurm, key, folder / "operator")
        try:
            while record.histories == 0 or (not only and time.monotonic() < end):
                name = only or f"{project}-{time.time_ns()}"
                chance = random.Random(name)
                cluster = RealCluster(server, policy, partial(BesideSlurm, slurm, operator.reasons))
                try:
                    world = Beside(cluster, operator, chance)
                    names = names_of(operator, chance) if record.histories or only else made.first
                    world.run(names)
                except Violation as error:
                    raise Violation(f"HOLDFAST_BRIDGE_HISTORY={name}: {error}") from None
                finally:
                    cluster.remove()
                record.histories += 1
                record.steps += len(names)
                record.bridge_writes += cluster.clock.writes
                record.seen += world.slurm.seen
                record.taken += tuple(world.taken)
        finally:
            operator.close()
    return record
