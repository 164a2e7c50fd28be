"""The drain of a node for a finding, or the comment instead of it while the budget is used up. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.findings import Finding
from holdfast.policy import flap_damping
from holdfast.policy.comments import may_comment
from holdfast.policy.node_inputs import Move, NodeDecision, NodeSituation
from holdfast.reason import Reason

OVER_BUDGET = "over budget: "


def drain_for(situation: NodeSituation, finding: Finding, why: str) -> NodeDecision:
    """Drain, or renew the reason of a drain of Holdfast's: then its count of returns is kept."""
    returns = flap_damping.count(
        situation.inputs.returns, finding.code, situation.limits, situation.now
    )
    if situation.own is not None:
        returns = max(returns, situation.own.returns)
    by_hand = flap_damping.needs_person(returns, situation.limits) or (
        situation.own is not None and situation.own.by_hand
    )
    reason = reason_text(
        situation,
        finding,
        prefix=flap_damping.prefix(returns, situation.limits) if by_hand else "",
        more={"returns": str(returns)} if returns else {},
    )
    return NodeDecision(
        move=Move.DRAIN, why=why, reason=reason, finding=finding, returns=returns, by_hand=by_hand
    )


def is_admitted(situation: NodeSituation) -> bool:
    """Only a budget that was counted admits a drain."""
    return situation.admission is not None and situation.admission.admitted


def budget_comment(situation: NodeSituation, text: str, *, forget: bool) -> NodeDecision:
    """The node stays in service, and its comment shows why."""
    admission = situation.admission
    why = OVER_BUDGET + admission.why if admission else "the drained nodes could not be counted"
    move = Move.COMMENT if may_comment(situation.node, text) else Move.NONE
    return NodeDecision(move=move, why=why, reason=text, forget=forget, over_budget=True)


def boot_pair(situation: NodeSituation) -> dict[str, str]:
    """The boot in which the fault was found, as a pair of the Reason; none if it is not known."""
    return {"boot": situation.boot_id[:8]} if situation.boot_id else {}


def reason_text(
    situation: NodeSituation,
    finding: Finding,
    *,
    prefix: str = "",
    more: Mapping[str, str] | None = None,
) -> str:
    """The Reason for a finding on this node. What is over budget is only a comment, so Soperator must not
    read it as a drain."""
    pairs = boot_pair(situation)
    if finding.gpu is not None:
        pairs["gpu"] = str(finding.gpu)
    marked = situation.limits.node_problem and not prefix.startswith(OVER_BUDGET)
    return str(Reason(finding.code, prefix + finding.detail, {**pairs, **(more or {})}, marked))
