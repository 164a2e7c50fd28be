"""Which Slurm node runs on which Kubernetes Node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig, Join
from k8s_bridge.model.snapshot import KubeNode


class NodeMapping(NamedTuple):
    """``pairs`` are the same machine. ``ambiguous``: Nodes to which several Slurm nodes map; they are
    ignored, with a warning. ``orphans``: Nodes to which no Slurm node maps.
    """

    pairs: list[tuple[SlurmNode, KubeNode]]
    ambiguous: list[KubeName]
    orphans: list[KubeNode]


def kube_name(node: SlurmNode, policy: BridgeConfig) -> KubeName:
    """The name of its Kubernetes Node; empty where it is unknown."""
    if policy.join is Join.TABLE:
        return KubeName(policy.nodes.get(node.name, ""))
    return KubeName(node.instance_id)


def map_nodes(
    slurm: Sequence[SlurmNode], kube: Sequence[KubeNode], policy: BridgeConfig
) -> NodeMapping:
    """Match both lists.

    A Slurm node without a Node (powered down, not created yet) is no error.
    """
    claims = Counter(kube_name(node, policy) for node in slurm)
    by_name = {node.name: node for node in kube}
    pairs = []
    for node in slurm:
        name = kube_name(node, policy)
        if claims[name] == 1 and name in by_name:
            pairs.append((node, by_name[name]))
    ambiguous = sorted(name for name, count in claims.items() if name in by_name and count > 1)
    return NodeMapping(pairs, ambiguous, [node for node in kube if node.name not in claims])
