"""Who drained a node, and what returns it to service: from Slurm, and from the report of the node's own
agent where that can be read. For messages only: an undrain needs the proof of ``policy.ownership``. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum

from holdfast.faults import Fault, fault_of
from holdfast.node_states import OUT_OF_SERVICE
from holdfast.policy import flap_damping
from holdfast.policy.budget import KUBE_CORDON, KUBE_RULE
from holdfast.policy.ownership import DrainRecord, is_own_drain
from holdfast.policy.recovery_action import of_nvml
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.text.remedy import DO
from holdfast.vocabulary import Action, NodeState

# The start of the reasons that slurmctld itself writes (24.11 and 26.05).
_SLURM_REASONS = (
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

_THEN = "then its agent's re-check returns it to service"
_BY_ITSELF = {
    NodeState.MAINTENANCE: "It returns at the end of its reservation.",
    NodeState.NOT_RESPONDING: "It returns by itself once its slurmd responds: start slurmd there. If it "
    "stays DOWN (ReturnToService=0 in slurm.conf): {resume}.",
    NodeState.POWERED_DOWN: "Slurm powers it up when a job needs it.",
    NodeState.POWERING_DOWN: "Slurm powers it up when a job needs it.",
}
_REQUIRED = re.compile(
    r"(?:asks for|requires) (?P<action>[a-z-]+)|NVML recovery action (?P<value>\d+)"
    r"|action changed from .* to 0x(?P<changed>[0-9a-f]+)\b"
)
"""How the agent's reasons name a required action that is not the usual one of the code."""
_ACTIONS = {action.value: action for action in Action}
_PUBLISHED_S = 5.0
"""A verdict is published at most this long after the drain; an earlier one may not know the drain."""


class Owner(str, Enum):
    """Who took the node out of service."""

    NOBODY = "nobody"
    AGENT = "holdfast-agent"
    BRIDGE = "holdfast-bridge"
    SLURM = "slurm"
    OTHER = "other"
    """A person or another tool: Holdfast does not touch the drain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """What the node's own agent reports about its drains, in the verdict file.

    ``made``    the drain that it has on record; None: it made none.
    ``at``      the time of the report (epoch s). ``fresh``: the agent is running, the report is current.
    ``until``   the time (epoch s) from which the fault no longer counts if nothing else happens.
    """

    made: DrainRecord | None
    at: float = 0.0
    fresh: bool = True
    until: float | None = None

    def denies(self, node: SlurmNode) -> bool:
        """This agent did not make the drain that is on the node."""
        drained_at = node.reason_at.timestamp() if node.reason_at else 0.0
        return (
            self.fresh and self.at - drained_at > _PUBLISHED_S and not is_own_drain(self.made, node)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainStatus:
    """``out_of_service``: the node accepts no new work. ``undo``: one sentence on what returns it.

    ``confirmed``: the agent has the drain on record; otherwise ``owner`` follows from the reason's text,
    which anyone can type. ``required_action``: what must happen before the node returns.
    """

    out_of_service: bool
    owner: Owner
    reason: Reason | None
    fault: Fault | None
    undo: str
    confirmed: bool = False
    required_action: Action | None = None


def drain_status(node: SlurmNode, report: AgentReport | None = None) -> DrainStatus:
    """Who drained the node, why, and what returns it: from Slurm's view of the node, and from its
    agent's ``report`` where that can be read.
    """
    out = bool(node.states & OUT_OF_SERVICE)
    reason = Reason.parse(node.reason)
    owner = _owner(node, reason, report, out=out)
    by_holdfast = owner in (Owner.AGENT, Owner.BRIDGE)
    fault = fault_of(reason.code) if reason and by_holdfast else None
    confirmed = report is not None and is_own_drain(report.made, node)
    required_action = None
    if owner is Owner.AGENT and reason is not None and fault is not None:
        required_action = (
            report.made.action
            if confirmed and report and report.made
            else required_action_in(reason) or fault.action
        )
    return DrainStatus(
        out_of_service=out,
        owner=owner,
        reason=reason,
        fault=fault,
        undo=_undo(node, owner, reason, required_action, report if confirmed else None),
        confirmed=confirmed,
        required_action=required_action,
    )


def required_action_in(reason: Reason) -> Action | None:
    """The required action that the reason's text names; the last one counts."""
    # A finding's detail may quote what the driver reports before it says what is required.
    for match in reversed(list(_REQUIRED.finditer(reason.detail))):
        number = int(match["value"] or match["changed"] or "0", 16)
        evidence = of_nvml(number)
        if evidence is not None:
            return evidence.action
        if match["action"] in _ACTIONS:
            return _ACTIONS[match["action"]]
    return None


def _owner(
    node: SlurmNode, reason: Reason | None, report: AgentReport | None, *, out: bool
) -> Owner:
    if not out:
        return Owner.NOBODY
    if reason is not None and reason.code in (KUBE_CORDON, KUBE_RULE):
        return Owner.BRIDGE
    if reason is not None:
        # Anyone can type a reason in Holdfast's form: the agent knows whether it made this drain.
        return Owner.OTHER if report is not None and report.denies(node) else Owner.AGENT
    # Without the DRAIN flag nobody drained it: slurmctld lost the node or does not accept it.
    if node.reason.startswith(_SLURM_REASONS) or not (node.drained_flag or node.reason):
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
    if owner is Owner.BRIDGE and reason is not None and reason.code == KUBE_RULE:
        rule = reason.pairs.get("rule", "of the bridge")
        return f"If Holdfast drained it: it returns when the rule {rule} no longer matches."
    if owner is Owner.BRIDGE:
        return (
            "If Holdfast drained it: kubectl uncordon of its Kubernetes node returns it to service."
        )
    if owner is Owner.AGENT and reason is not None and required_action is not None:
        condition = "" if proof else "If Holdfast drained it: "
        return condition + _by_agent(reason, required_action, proof).format(resume=resume)
    if owner is Owner.SLURM:
        # A DRAIN flag stays after the state that caused it.
        by_itself = None if node.drained_flag else _first(node)
        text = by_itself or "Drained by Slurm itself: once the cause is gone, {resume}."
        return text.format(resume=resume)
    user = node.reason_user or "an unknown user"
    typed = " (its agent has no record of this drain)" if Reason.parse(node.reason) else ""
    return f"Drained by {user}{typed}; resume it manually: {resume}."


def _by_agent(reason: Reason, required_action: Action, proof: AgentReport | None) -> str:
    if flap_damping.is_by_hand(reason):
        often = flap_damping.times(flap_damping.returns_in(reason))
        return f"Needs a person: it returned {often} before; find the cause, then {{resume}}."
    if proof is None or proof.until is None:
        if required_action is Action.CONTACT_SUPPORT:
            return f"Needs a person: {DO[required_action].lower()}, then {{resume}}."
        returns = flap_damping.returns_in(reason)
        later = (
            f", later than usual, as it returned {flap_damping.times(returns)} before"
            if returns
            else ""
        )
        return (
            f"{DO[required_action]}; {_THEN}{later}."
            if required_action in DO
            else f"The agent returns it to service once the re-check passes{later}."
        )
    at = datetime.fromtimestamp(proof.until, timezone.utc).astimezone()
    return (
        f"The fault counts until {at:%Y-%m-%d %H:%M}; {_THEN}. To return it earlier: {{resume}}; the past "
        "fault is then acknowledged."
    )


def _first(node: SlurmNode) -> str | None:
    return next((text for state, text in _BY_ITSELF.items() if state in node.states), None)
