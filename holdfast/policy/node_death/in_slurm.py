"""What may be done in Slurm about a node that was found dead, and about one that is back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.node_states import FAILED, NO_STATE, NOT_DEFINED, POWERED_OFF
from holdfast.policy.budget import NODE_DEATH, BudgetLimits, NodeRow, admit
from holdfast.policy.node_death.heartbeat import Death
from holdfast.policy.ownership import NodeView
from holdfast.reason import Reason
from holdfast.vocabulary import NodeState, SlurmName

_S = NodeState
_EXPECTED = POWERED_OFF | {
    *(_S.POWERING_UP, _S.POWER_DOWN, _S.REBOOT_REQUESTED, _S.REBOOT_ISSUED),
    *(_S.MAINTENANCE, _S.INVALID_REG),
}
"""Somebody works on the node, or Slurm itself boots it: its silence is expected."""


def kept(node: NodeView) -> str:
    """Why the node must not be set DOWN; empty: it may. What others set, and their reasons, stay."""
    if node.drained_flag or node.states & FAILED:
        by = node.reason_user or "Slurm"
        return f"it is out of service already, by {by} ({node.reason or 'no reason'})"
    expected = node.states & (_EXPECTED | NOT_DEFINED | NO_STATE)
    if expected:
        return f"its state is {'+'.join(sorted(state.value for state in expected))}"
    return ""


def over_budget(name: SlurmName, table: Iterable[NodeRow], limits: BudgetLimits) -> str:
    """Why the budget does not admit one more node out of service; empty: it does."""
    admission = admit(name, table, limits, NODE_DEATH)
    return "" if admission.admitted else f"over budget: {admission.why}"


def reason_of(death: Death, by: str, proof: str) -> str:
    """The Reason of the node."""
    others = ", ".join(death.agreed)
    detail = f"no heartbeat and no answer to TCP for {death.silent_s:.1f} s, say {others}"
    return str(Reason(NODE_DEATH, detail, {"run": death.run, "by": by, "proof": proof}))


def is_own(node: NodeView, is_proof: Callable[[str, str, str], bool]) -> bool:
    """Whether an agent set this node DOWN and nobody changed it since. ``is_proof``: of run, by, proof.

    The text alone proves nothing, but users cannot compute its proof.
    """
    if _S.DOWN not in node.states or node.drained_flag:
        return False
    reason = Reason.parse(node.reason)
    if reason is None or reason.code != NODE_DEATH:
        return False
    run, by, given = (reason.pairs.get(key, "") for key in ("run", "by", "proof"))
    return is_proof(run, by, given)
