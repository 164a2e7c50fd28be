"""Section ``bridge`` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from holdfast.config.bounds import within


class Join(str, Enum):
    """How a Slurm node finds its Kubernetes Node."""

    INSTANCE_ID = "instance_id"
    """Slurm's InstanceId is the Node's name (Soperator)."""
    TABLE = "table"
    """The mapping ``nodes`` says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeConfig:
    """What the bridge does and how often it looks."""

    poll_s: float = 2.0
    """Longest time between two looks at Slurm; a change in Kubernetes wakes the bridge at once."""
    cordon: bool = True
    """Cordon the Node of a Slurm node that Holdfast drained."""
    taint: bool = True
    """Taint it ``holdfast.dev/drained=CODE:NoSchedule`` too."""
    drain_on_cordon: bool = True
    """Drain in Slurm what somebody cordoned in Kubernetes, and give it back on uncordon."""
    events: bool = True
    """Tell transitions as Events on the Node."""
    join: Join = Join.INSTANCE_ID
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Slurm node name → Kubernetes Node name, for ``join: table``."""
    node_selector: str = ""
    """Label selector: the bridge sees no other Node. Empty: all."""
    kubeconfig: str = ""
    """Empty: ``KUBECONFIG``, else /etc/holdfast/kubeconfig if it is there, else the pod's own
    account.
    """
    slurm_user: str = "holdfast"
    """The Slurm user that the bridge acts as: half of the proof that a drain is its own."""
    slurm_token_file: str = ""
    """File with a JSON Web Token of that user (``scontrol token``), read for each command. Empty: the
    cluster's AuthType, which needs its key or munge's socket.
    """
    timeout_s: float = 10.0
    """Bound of one call to the API server."""
    unreadable_polls: int = 3
    """So many failed looks at Slurm in a row, and our conditions say Unknown."""
    max_changes: int = 200
    """Most changes written between two looks, the urgent ones first: a storm must not delay the
    next drain.
    """

    def __post_init__(self) -> None:
        within(self, poll_s=(0.1, 300), timeout_s=(0.5, 120))
        within(self, unreadable_polls=(1, 1000), max_changes=(1, 100_000))
        if self.slurm_token_file and not Path(self.slurm_token_file).is_absolute():
            raise ValueError(f"slurm_token_file must be absolute, got {self.slurm_token_file!r}")
        if not self.slurm_user:
            raise ValueError("slurm_user must not be empty")
        if self.join is Join.TABLE and not self.nodes:
            raise ValueError(
                "join is 'table', so nodes must map at least one Slurm node to a Kubernetes Node"
            )
        if self.join is not Join.TABLE and self.nodes:
            raise ValueError("nodes is read only with join: table; set that, or remove nodes")
        twice = _first_twice(self.nodes)
        if twice:
            raise ValueError(f"nodes names the Kubernetes Node {twice!r} twice")


def _first_twice(nodes: Mapping[str, str]) -> str | None:
    seen: set[str] = set()
    for kube in nodes.values():
        if kube in seen:
            return kube
        seen.add(kube)
    return None
