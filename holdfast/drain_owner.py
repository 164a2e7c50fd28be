"""Whose drain a node shows, and what would undo it: told from Slurm, and from the node's own agent
where its word can be read. For people; an undo needs the proof of ``policy.ownership``. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum

from holdfast.faults import Fault, fault_of
from holdfast.policy import flap_damping
from holdfast.policy.budget import KUBE_CORDON
from holdfast.policy.ownership import DrainRecord, is_ours
from holdfast.policy.recovery_action import of_nvml
from holdfast.reason import Reason
from holdfast.remedy import DO
from holdfast.slurm.client import SlurmNode
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

_THEN = "then its agent's re-check gives it back"
_BY_ITSELF = {
    NodeState.MAINTENANCE: "The end of its reservation gives it back.",
    NodeState.NOT_RESPONDING: "It returns by itself once its slurmd answers again: start it there. If it "
    "stays DOWN then (ReturnToService=0 in slurm.conf): {resume}.",
    NodeState.POWERED_DOWN: "Slurm powers it up when a job needs it.",
    NodeState.POWERING_DOWN: "Slurm powers it up when a job needs it.",
}
_ASKED = re.compile(
    r"requires (?P<action>[a-z-]+)|NVML recovery action (?P<value>\d+)"
    r"|action changed from .* to 0x(?P<changed>[0-9a-f]+)\b"
)
"""What the agent writes into a reason where more is asked for than the code alone tells."""
_ACTIONS = {action.value: action for action in Action}
_LATE_S = 5.0
"""A verdict is published this long after the drain at the latest; one before it denies nothing."""


class Owner(str, Enum):
    """Who took the node out of service."""

    NOBODY = "nobody"
    AGENT = "holdfast-agent"
    BRIDGE = "holdfast-bridge"
    SLURM = "slurm"
    OTHER = "other"
    """A person or another tool: Holdfast leaves it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """What the node's own agent says of its drains, in the verdict file.

    ``made``    the drain that it has on record; None: it made none.
    ``at``      when it said so (epoch s). ``fresh``: the agent lives and still says so.
    ``until``   epoch s at which the fault counts no more by the passing of time alone.
    """

    made: DrainRecord | None
    at: float = 0.0
    fresh: bool = True
    until: float | None = None

    def denies(self, node: SlurmNode) -> bool:
        """The drain that stands is none of this agent's."""
        drained_at = node.reason_at.timestamp() if node.reason_at else 0.0
        return self.fresh and self.at - drained_at > _LATE_S and not is_ours(self.made, node)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainStatus:
    """``out``: the node takes no new work. ``undo``: one sentence on what would give it back.

    ``confirmed``: the agent's own record says that the drain is its; otherwise ``owner`` goes by the
    reason's words, which anybody can type. ``required_action``: what must happen before the node returns.
    """

    out_of_service: bool
    owner: Owner
    reason: Reason | None
    fault: Fault | None
    undo: str
    confirmed: bool = False
    required_action: Action | None = None


def standing(node: SlurmNode, word: AgentReport | None = None) -> DrainStatus:
    """Who, why and how back: from Slurm's view of the node, and its agent's ``word`` where that can
    be read.
    """
    out = bool(node.states & _OUT)
    reason = Reason.parse(node.reason)
    owner = _owner(node, reason, word, out=out)
    ours = owner in (Owner.AGENT, Owner.BRIDGE)
    fault = fault_of(reason.code) if reason and ours else None
    confirmed = word is not None and is_ours(word.made, node)
    required_action = None
    if owner is Owner.AGENT and reason is not None and fault is not None:
        required_action = (
            word.made.action
            if confirmed and word and word.made
            else asked_in(reason) or fault.action
        )
    return DrainStatus(
        out_of_service=out,
        owner=owner,
        reason=reason,
        fault=fault,
        undo=_undo(node, owner, reason, required_action, word if confirmed else None),
        confirmed=confirmed,
        required_action=required_action,
    )


def asked_in(reason: Reason) -> Action | None:
    """What the reason's own words ask for; the last word counts."""
    for found in reversed(list(_ASKED.finditer(reason.detail))):
        number = int(found["value"] or found["changed"] or "0", 16)
        asked = of_nvml(number)
        if asked is not None:
            return asked.action
        if found["action"] in _ACTIONS:
            return _ACTIONS[found["action"]]
    return None


def _owner(node: SlurmNode, reason: Reason | None, word: AgentReport | None, *, out: bool) -> Owner:
    if not out:
        return Owner.NOBODY
    if reason is not None and reason.code == KUBE_CORDON:
        return Owner.BRIDGE
    if reason is not None:
        return Owner.OTHER if word is not None and word.denies(node) else Owner.AGENT
    # Without the DRAIN flag nobody asked for it: slurmctld lost the node or refuses it.
    if node.reason.startswith(_SLURM) or not (node.drained_flag or node.reason):
        return Owner.SLURM
    return Owner.OTHER


def _undo(
    node: SlurmNode,
    owner: Owner,
    reason: Reason | None,
    required_action: Action | None,
    proof: AgentReport | None,
) -> str:
    resume = f"scontrol update nodename={node.name} state=resume"
    if owner is Owner.NOBODY:
        return ""
    if owner is Owner.BRIDGE:
        return "If it is Holdfast's: kubectl uncordon of its Kubernetes node gives it back."
    if owner is Owner.AGENT and reason is not None and required_action is not None:
        maybe = "" if proof else "If it is Holdfast's: "
        return maybe + _by_agent(reason, required_action, proof).format(resume=resume)
    if owner is Owner.SLURM:
        by_itself = None if node.drained_flag else _first(node)
        said = by_itself or "Slurm's own reason: once its cause is gone, {resume}."
        return said.format(resume=resume)
    who = node.reason_user or "whoever did it"
    typed = ": its agent made no such drain" if Reason.parse(node.reason) else ""
    return f"Only {who}{typed}; Holdfast never undoes what it did not do ({resume})."


def _by_agent(reason: Reason, required_action: Action, proof: AgentReport | None) -> str:
    if flap_damping.says_by_hand(reason):
        often = flap_damping.times(flap_damping.returns_in(reason))
        return f"A person: it returned {often} before; find out why it comes and goes, then {{resume}}."
    if proof is None or proof.until is None:
        if required_action is Action.CONTACT_SUPPORT:
            return f"A person: {DO[required_action].lower()}, then {{resume}}."
        returns = flap_damping.returns_in(reason)
        later = (
            f", later than usual, as it returned {flap_damping.times(returns)} before"
            if returns
            else ""
        )
        return (
            f"{DO[required_action]}; {_THEN}{later}."
            if required_action in DO
            else f"The agent gives it back once the re-check passes{later}."
        )
    at = datetime.fromtimestamp(proof.until, timezone.utc).astimezone()
    return (
        f"It counts until {at:%Y-%m-%d %H:%M}; {_THEN}. Before that {{resume}} is honoured: what was "
        "does not count again."
    )


def _first(node: SlurmNode) -> str | None:
    return next((text for state, text in _BY_ITSELF.items() if state in node.states), None)
