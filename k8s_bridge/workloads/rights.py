"""The rights that restarts of workloads need, in each namespace. Asked at each start of the loop."""

from __future__ import annotations

from collections.abc import Iterator

from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.access import Reviews, Right, require_all
from k8s_bridge.workloads.kinds import KINDS


def needed(policy: BridgeConfig) -> Iterator[Right]:
    """Every right that this configuration uses."""
    for namespace in policy.workloads.namespaces:
        yield Right("list", "pods", namespace=namespace)
        yield Right("create", "pods", subresource="eviction", namespace=namespace)
        for kind in KINDS:
            for verb in ("list", "patch"):
                yield Right(verb, kind.resource, kind.group, namespace=namespace)
        if policy.events:
            yield Right("create", "events", "events.k8s.io", namespace=namespace)


def require(kube: Reviews, policy: BridgeConfig, where: str) -> None:
    """Raises ``UsageError``, with one line, if a right is missing. ``where``: as in ``access.require_all``."""
    names = ",".join(policy.workloads.namespaces)
    require_all(kube, needed(policy), where, f"workloads-rbac --set namespaces={names}")
