"""What the bridge does beside its loop, where the configuration asks for it. Each has a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from holdfast.slurm.client import SlurmNode
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.worker_pods.protection import Protection
from k8s_bridge.workloads.recovery import Recovery

if TYPE_CHECKING:
    from k8s_bridge.endpoints.metrics import BridgeMetrics
    from k8s_bridge.kube.client import KubeApi


class Feature(Protocol):
    """It gets what each look of the loop found; ``None``: unknown."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def see(self, slurm: list[SlurmNode] | None, kube: list[KubeNode] | None, /) -> None: ...


def features(
    kube: KubeApi, policy: BridgeConfig, is_off: Callable[[], bool], metrics: BridgeMetrics
) -> list[Feature]:
    """Those that are on. ``is_off``: a kill switch stops all actions."""
    found: list[Feature] = []
    if policy.workloads.namespaces:
        found.append(Recovery(kube, policy, is_off, metrics.workload_restarted))
    if policy.worker_pods_namespace:
        found.append(Protection(kube, policy.worker_pods_namespace, is_off))
    return found
