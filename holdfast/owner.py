"""Whose drain a node shows, told from Slurm alone. For people; an undo needs the proof of
``policy.ownership``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from holdfast.adapters.slurm import SlurmNode
from holdfast.faults import Fault, fault_of
from holdfast.policy.budget import KUBE_CORDON
from holdfast.reasons import Reason
from holdfast.vocabulary import Action, NodeState

_OUT = {
    NodeState.DRAIN,
    NodeState.DOWN,
    NodeState.FAIL,
    NodeState.ERROR,
    NodeState.MAINTENANCE,
    NodeState.POWERED_DOWN,
    NodeState.POWERING_DOWN,
    NodeState.INVALID_REG,
    NodeState.NOT_RESPONDING,
}
# Reasons that slurmctld writes by itself (24.11 and 26.05).
_SLURM = (
    "Not responding",
    "Node unexpectedly rebooted",
    "Prolog error",
    "Epilog error",
    "Kill task failed",
    "Low RealMemory",
    "Low socket",
    "gres/",
    "batch job complete failure",
    "reboot timed out",
    "ResumeTimeout reached",
)

_UNDO = {
    Action.NONE: "The agent gives it back once the re-check passes.",
    Action.RESTART_JOB: "The agent gives it back once the re-check passes.",
    Action.WAIT: "Nothing but time: the agent gives it back once the fault is gone and the re-check "
    "passes.",
    Action.RESET_GPU: "Reset the GPU or reboot the node; then the agent's re-check gives it back.",
    Action.REBOOT: "Reboot the node; then the agent's re-check gives it back.",
    Action.REPLACE: "Replace the node or the GPU; then the agent's re-check gives it back.",
    Action.CONTACT_SUPPORT: "A person: have the hardware repaired, then scontrol update nodename=… "
    "state=resume.",
}


class Owner(str, Enum):
    """Who took the node out of service."""

    NOBODY = "nobody"
    AGENT = "holdfast-agent"
    BRIDGE = "holdfast-bridge"
    SLURM = "slurm"
    OTHER = "other"
    """A person or another tool: Holdfast leaves it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """``out``: the node takes no new work. ``undo``: one sentence on what would give it back."""

    out: bool
    owner: Owner
    reason: Reason | None
    fault: Fault | None
    undo: str


def standing(node: SlurmNode) -> Standing:
    """What Slurm's view of the node tells about who, why and how back."""
    out = bool(node.states & _OUT)
    reason = Reason.parse(node.reason)
    owner = _owner(node, reason, out=out)
    fault = fault_of(reason.code) if reason else None
    return Standing(
        out=out, owner=owner, reason=reason, fault=fault, undo=_undo(node, owner, fault)
    )


def _owner(node: SlurmNode, reason: Reason | None, *, out: bool) -> Owner:
    if not out:
        return Owner.NOBODY
    if reason is not None:
        return Owner.BRIDGE if reason.code == KUBE_CORDON else Owner.AGENT
    # Without the DRAIN flag nobody asked for it: slurmctld lost the node or refuses it.
    if node.reason.startswith(_SLURM) or not (node.drained_flag or node.reason):
        return Owner.SLURM
    return Owner.OTHER


def _undo(node: SlurmNode, owner: Owner, fault: Fault | None) -> str:
    if owner is Owner.NOBODY:
        return ""
    if owner is Owner.BRIDGE:
        return "kubectl uncordon of its Kubernetes node gives it back."
    if owner is Owner.AGENT and fault is not None:
        return _UNDO[fault.action]
    if owner is Owner.SLURM:
        return (
            "Slurm's own reason: once its cause is gone, scontrol update nodename=… state=resume."
        )
    who = node.reason_user or "whoever did it"
    return f"Only {who}: Holdfast never undoes what it did not do."
