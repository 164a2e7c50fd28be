"""A fake cluster whose bridge follows rules, with helpers to set what Nodes show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from holdfast.vocabulary import SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.changes import Change
from k8s_bridge.model.disruption import Disruption
from k8s_bridge.planning.plan import plan
from k8s_bridge.planning.signals import Signals
from k8s_bridge.rules.rule import RuleMode
from k8s_bridge.rules.settings import BridgeBudget, RuleSettings
from tests.unit.k8s_bridge.fake_cluster import NOON, FakeCluster

GPU = "NebiusGPUError"
W0 = SlurmName("worker-0")


def draining(use: str, **values: Any) -> RuleSettings:
    return RuleSettings(use=use, mode=RuleMode.DRAIN, **values)


class RuleCluster(FakeCluster):
    """``FakeCluster`` whose bridge keeps its ``Signals`` from one pass to the next."""

    def __init__(
        self,
        *rules: RuleSettings,
        nodes: int = 1,
        budget: BridgeBudget | None = None,
        **policy: Any,
    ):
        limits = budget or BridgeBudget(max_nodes=2, max_share=0)
        super().__init__(nodes, BridgeConfig(rules=rules, budget=limits, **policy))
        self.signals = Signals(self.policy)
        self.pods: dict[SlurmName, Disruption] = {}
        self.domains: dict[SlurmName, str] = {}

    def plan(self) -> list[Change]:
        slurm = self.slurm.nodes()
        listed, now = self.kube.list_nodes()[0], self.clock.now
        kube = self.signals.look(slurm, listed, now, self.pods, self.domains)
        return plan(slurm, kube, self.policy, self.clock.now)

    def restart(self) -> None:
        self.signals = Signals(self.policy)

    def show(
        self, condition: str, status: str | None, i: int = 0, *, ago_s: float = 0, says: str = ""
    ) -> None:
        """What another client writes, with the message ``says``; ``None``: it removes the condition."""
        rows = self.kube.raw[f"computeinstance-{i}"]["status"]["conditions"]
        rows[:] = [row for row in rows if row["type"] != condition]
        if status is not None:
            at = self.clock.now - timedelta(seconds=ago_s)
            rows.append(
                {
                    "type": condition,
                    "status": status,
                    "lastTransitionTime": f"{at:%Y-%m-%dT%H:%M:%SZ}",
                    "message": says,
                }
            )
        self.kube._touch(f"computeinstance-{i}")

    def ends_pods(self, which: Iterable[int]) -> None:
        """Kubernetes ends the worker pods of these nodes, and of no others."""
        at = self.clock.now.timestamp()
        ends = Disruption(reason="DeletionByTaintManager", since=at, until=at + 30)
        self.pods = {self.node(i).name: ends for i in which}

    def label(self, key: str, value: str, i: int = 0) -> None:
        self.kube.raw[f"computeinstance-{i}"]["metadata"].setdefault("labels", {})[key] = value
        self.kube._touch(f"computeinstance-{i}")

    def passes(self, seconds: int, every: int = 5) -> None:
        """The bridge looks every ``every`` seconds."""
        for _ in range(0, seconds, every):
            self.wait(every)
            self.round()

    def drained(self) -> list[str]:
        return [name for name, node in self.slurm.by_name.items() if node.drained_flag]


def since_noon(cluster: FakeCluster) -> float:
    return (cluster.clock.now - NOON).total_seconds()


def notices(cluster: RuleCluster) -> Sequence[str]:
    return cluster.signals.notices()
