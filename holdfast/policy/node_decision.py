"""Decide what to do about one node. Pure: everything that is known goes in, one decision comes out.

``_RULES`` is an ordered table; the first row that applies decides. Of docs/reference/invariants.md it implements
the rules:

* 2: a probe that gives no answer is evidence of neither health nor a fault;
* 3: a person's drain is never touched, and a node returns to service only after what its fault required
  has happened and a re-check passed;
* 4: beyond the budget a node stays in service;
* 5: a check does at most what its mode allows;
* 6: nothing is sent twice.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.findings import Finding, Verdict
from holdfast.node_states import FAILED
from holdfast.policy.comments import may_comment
from holdfast.policy.node_drain import (
    OVER_BUDGET,
    boot_pair,
    budget_comment,
    drain_for,
    is_admitted,
    reason_text,
)
from holdfast.policy.node_inputs import Move, NodeDecision, NodeSituation
from holdfast.policy.ownership import HOOK_REASONS, NodeView
from holdfast.policy.return_conditions import (
    blocking_condition,
    fulfilled_requirement,
    pending_requirement,
)
from holdfast.policy.return_test import ReservedBy, may_return
from holdfast.reason import Reason
from holdfast.vocabulary import Action, Mode, Severity

_RANK = {action: rank for rank, action in enumerate(Action)}


def decide(situation: NodeSituation) -> NodeDecision:
    """One decision for this node at this moment."""
    return next(decision for rule in _RULES if (decision := rule(situation)) is not None)


# --- a return test is under way: the node is undrained inside a reservation


def _tested_by_others(situation: NodeSituation) -> NodeDecision | None:
    if situation.reserved_by is not ReservedBy.OTHERS:
        return None
    return NodeDecision(move=Move.NONE, why="under inspection; the inspection restores its state")


def _end_test(situation: NodeSituation) -> NodeDecision | None:
    """Return the node if the test allows it, else restore the drain."""
    test_result = situation.inputs.test_result
    if situation.reserved_by is ReservedBy.NOBODY:
        return None
    record, blind = situation.record, situation.inputs.verdict.blind
    healthy = situation.worst is None and not blind
    if (
        healthy
        and record is not None
        and test_result is not None
        and may_return(situation.limits.return_test, test_result, record.reason)
    ):
        why = (
            f"{record.code} is over: {fulfilled_requirement(record.action)}, {test_result.summary}"
        )
        return NodeDecision(move=Move.UNDRAIN, why=why, forget=True)
    if situation.worst is not None:
        why = f"{situation.worst.code} was found during the test: {situation.worst.detail}"
    elif blind:
        why = _blind(situation)
    else:
        why = test_result.summary if test_result is not None else "a test was left unfinished"
    return NodeDecision(move=Move.RESTORE, why=why)


# --- drained by Holdfast, and a fault is still open


def _withdraw(situation: NodeSituation) -> NodeDecision | None:
    """Several agents drained at the same time and exceeded the budget; this one drained too late."""
    if situation.own is None or situation.worst is None or not situation.must_withdraw:
        return None
    text = reason_text(situation, situation.worst, prefix=OVER_BUDGET)
    return NodeDecision(
        move=Move.WITHDRAW,
        why="over budget: other nodes were drained before this one",
        reason=text if may_comment(situation.node, text) else "",
        forget=True,
        over_budget=True,
        finding=situation.worst,
    )


def _requires_more(situation: NodeSituation) -> NodeDecision | None:
    """The reason has to name the stronger action, else the node returns after the weaker one."""
    if situation.own is None or situation.worst is None:
        return None
    if _RANK[situation.worst.action] <= _RANK[situation.own.action]:
        return None
    why = f"{situation.worst.code} requires {situation.worst.action.value}, more than {situation.own.code}"
    return drain_for(situation, situation.worst, why)


def _other_fault(situation: NodeSituation) -> NodeDecision | None:
    """The reason has to name a fault that is open, so that nobody looks for one that is over.

    It stays while the recorded fault requires the stronger action, and that has not happened.
    """
    if situation.own is None or situation.worst is None:
        return None
    if situation.own.code in {finding.code for finding in situation.inputs.verdict.findings}:
        return None
    weaker = _RANK[situation.worst.action] < _RANK[situation.own.action]
    if weaker and pending_requirement(situation, situation.own):
        return None
    return drain_for(
        situation, situation.worst, f"{situation.own.code} is over, {situation.worst.code} is open"
    )


def _stay_drained(situation: NodeSituation) -> NodeDecision | None:
    if situation.own is None or situation.worst is None:
        return None
    why = f"out of service for {situation.own.code}: {situation.worst.code} is open"
    return NodeDecision(move=Move.NONE, why=why)


# --- drained by Holdfast, and no fault is open


def _wait_for_return(situation: NodeSituation) -> NodeDecision | None:
    if situation.own is None:
        return None
    missing = blocking_condition(situation, situation.own)
    if not missing:
        return None
    return NodeDecision(move=Move.NONE, why=f"out of service for {situation.own.code}: {missing}")


def _return(situation: NodeSituation) -> NodeDecision | None:
    """Undrain the node, after its return test where the configuration requires one."""
    record, test_result = situation.own, situation.inputs.test_result
    if record is None:
        return None
    passes = situation.inputs.clean_passes
    why = f"{record.code} is over: {fulfilled_requirement(record.action)}, {passes} clean passes"
    allowed = may_return(situation.limits.return_test, test_result, record.reason)
    if allowed is None:
        return NodeDecision(move=Move.TEST, why=f"{why}; an active check comes before its return")
    if allowed or test_result is None:
        return NodeDecision(move=Move.UNDRAIN, why=why, forget=True)
    # The test failed: the reason stays, and the node's comment reports the test.
    text = str(Reason(record.code, f"re-test {test_result.summary}", boot_pair(situation)))
    move = Move.COMMENT if may_comment(situation.node, text) else Move.NONE
    why = f"out of service for {record.code}: {test_result.summary}"
    return NodeDecision(move=move, why=why, reason=text)


# --- not drained by Holdfast


def _drained_by_others(situation: NodeSituation) -> NodeDecision | None:
    """A drain of a person or another tool stays. Only Holdfast's own outdated comment is cleared."""
    node = situation.node
    if not node.drained_flag or (situation.worst is not None and node.reason in HOOK_REASONS):
        return None
    by = f"{node.reason_user or 'an unknown user'} ({node.reason or 'no reason'})"
    outdated = (
        _to_comment(situation) is None
        and not situation.inputs.verdict.blind
        and may_comment(node, "")
    )
    return NodeDecision(
        move=Move.COMMENT if outdated else Move.NONE,
        why=f"drained by {by}, not by Holdfast",
        forget=situation.forget,
    )


def _comment(situation: NodeSituation) -> NodeDecision | None:
    """Nothing drains: show what a check may show in the node's comment, or clear an outdated one."""
    if situation.worst is not None:
        return None
    finding = _to_comment(situation)
    if finding is None and situation.inputs.verdict.blind:
        return NodeDecision(move=Move.NONE, why=_blind(situation), forget=situation.forget)
    text = reason_text(situation, finding) if finding else ""
    why = f"{finding.code}: {finding.detail} (no drain)" if finding else "no finding"
    if not may_comment(situation.node, text):
        return NodeDecision(move=Move.NONE, why=why, forget=situation.forget)
    return NodeDecision(move=Move.COMMENT, why=why, reason=text, forget=situation.forget)


def _failed_for_others(situation: NodeSituation) -> NodeDecision | None:
    """The node is out of service anyway, and a drain would overwrite somebody else's reason."""
    if not _has_other_reason(situation.node):
        return None
    return NodeDecision(move=Move.NONE, why=_kept_reason(situation.node), forget=situation.forget)


def _over_budget(situation: NodeSituation) -> NodeDecision | None:
    if situation.worst is None or is_admitted(situation):
        return None
    text = reason_text(situation, situation.worst, prefix=OVER_BUDGET)
    return budget_comment(situation, text, forget=situation.forget)


def _drain(situation: NodeSituation) -> NodeDecision | None:
    if situation.worst is None:
        return None
    return drain_for(
        situation, situation.worst, f"{situation.worst.code}: {situation.worst.detail}"
    )


_RULES: tuple[Callable[[NodeSituation], NodeDecision | None], ...] = (
    # A node under test is not drained: nothing else may be concluded from its state in Slurm.
    _tested_by_others,
    _end_test,
    # Drained by Holdfast, and something that drains is still found.
    _withdraw,
    _requires_more,
    _other_fault,
    _stay_drained,
    # Drained by Holdfast, and nothing that drains is found any more.
    _wait_for_return,
    _return,
    # In service, or drained by others.
    _drained_by_others,
    _comment,
    _failed_for_others,
    _over_budget,
    _drain,
)
"""In order; the first rule that returns a decision decides. The last two cover what is left."""


def drain_lost(situation: NodeSituation) -> NodeDecision:
    """slurmctld restarted without the drain of ``record``, and nobody resumed the node: drain it again,
    unless it would have returned to service by now.
    """
    node, record = situation.node, situation.record
    assert record is not None  # noqa: S101 - the caller checked
    lost = f"slurmctld lost the drain for {record.code}"
    if situation.worst is None and not blocking_condition(situation, record):
        return NodeDecision(move=Move.NONE, why=f"{lost}, which is over", forget=True)
    if _has_other_reason(node):
        return NodeDecision(move=Move.NONE, why=_kept_reason(node))
    if not is_admitted(situation):
        old = Reason.parse(record.reason)
        detail, pairs = (old.detail, old.pairs) if old else ("", {})
        text = str(Reason(record.code, OVER_BUDGET + detail, pairs))
        return budget_comment(situation, text, forget=False)
    return NodeDecision(move=Move.DRAIN, why=lost, reason=record.reason)


def _has_other_reason(node: NodeView) -> bool:
    """Out of service without the DRAIN flag, for a reason that Holdfast did not write."""
    return bool(node.states & FAILED and node.reason) and Reason.parse(node.reason) is None


def _kept_reason(node: NodeView) -> str:
    return f"already out of service; the reason {node.reason!r} is kept"


def _to_comment(situation: NodeSituation) -> Finding | None:
    """The worst finding that may be shown in the node's comment."""
    shown = (Mode.COMMENT, Mode.DRAIN)
    return Verdict(
        findings=tuple(
            finding
            for finding in situation.inputs.verdict.findings
            if finding.severity >= Severity.WARN
            and situation.inputs.modes.get(finding.check, Mode.OBSERVE) in shown
        )
    ).worst


def _blind(situation: NodeSituation) -> str:
    return f"no answer from probes ({', '.join(situation.inputs.verdict.blind)})"
