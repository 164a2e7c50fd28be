"""Which worker pods may be evicted, and what to write for it. Pure.

A pod is protected unless its Slurm node is drained and free: then no job runs in it and none can start. So a
bridge that is late, or away, protects a pod too long and never too short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from holdfast.node_states import BUSY, NO_STATE
from holdfast.slurm.client import SlurmNode
from k8s_bridge.names import PREFIX

EVICTABLE = PREFIX + "evictable"
"""Label of a worker pod: with the value ``true``, the PodDisruptionBudget does not select it."""


def is_evictable(node: SlurmNode) -> bool:
    """Is the node drained, by anyone, with no job and no epilog on it?"""
    return node.drained_flag and not node.states & (BUSY | NO_STATE)


def changes(nodes: Iterable[SlurmNode], labelled: Set[str]) -> Mapping[str, str | None]:
    """Pod → the label's new value, ``None``: none. Protection comes first.

    ``labelled``: names of the pods that have the label now. A pod has the name of its Slurm node; one whose
    node Slurm does not know is protected.
    """
    wanted = {node.name for node in nodes if is_evictable(node)}
    protect: dict[str, str | None] = dict.fromkeys(sorted(labelled - wanted))
    return protect | dict.fromkeys(sorted(wanted - labelled), "true")
