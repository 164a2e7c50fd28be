"""Decide what to do about one node. Pure: everything that is known goes in, one decision comes out.

``_RULES`` is an ordered table; the first row that applies decides. Of docs/reference/rules.md it implements
the rules:

* 2: a probe that gives no answer is evidence of neither health nor a fault;
* 3: a person's drain is never touched, and a node returns to service only after what its fault required
  has happened and a re-check passed;
* 4: beyond the budget a node stays in service;
* 5: a check does at most what its mode allows;
* 6: nothing is sent twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from holdfast.faults import fault_of
from holdfast.findings import Finding, Verdict
from holdfast.node_states import FAILED
from holdfast.policy import flap_damping
from holdfast.policy.comments import may_comment
from holdfast.policy.node_inputs import Decision, Limits, Move, NodeSituation
from holdfast.policy.ownership import DrainRecord, NodeView, is_own_drain
from holdfast.policy.return_conditions import (
    blocking_condition,
    fulfilled_requirement,
    pending_requirement,
)
from holdfast.policy.return_test import ReservedBy, may_return
from holdfast.reason import Reason
from holdfast.vocabulary import Action, Mode, Severity

_HOOK_REASONS = {"Prolog error", "Epilog error"}
"""The reasons that slurmctld writes when a hook fails; Holdfast's hooks fail only on a bad node. While
the fault is open, its own reason replaces them: only then can the drain be undone automatically."""
SWITCHED_OFF = "switched off: off/all beside the configuration"
_OVER_BUDGET = "over budget: "
_RANK = {action: rank for rank, action in enumerate(Action)}


def draining(verdict: Verdict, modes: Mapping[str, Mode]) -> Finding | None:
    """The finding for which the node should leave service: the worst one whose check and code may drain.

    Faults that users cannot cause come first, since they have the larger part of the budget.
    """
    drains = [finding for finding in verdict.findings if _may_drain(finding, modes)]
    hardware = [finding for finding in drains if not fault_of(finding.code).by_users]
    return Verdict(findings=tuple(hardware or drains)).worst


def _may_drain(finding: Finding, modes: Mapping[str, Mode]) -> bool:
    if modes.get(finding.check, Mode.OBSERVE) is not Mode.DRAIN:
        return False
    if finding.severity is Severity.FATAL:
        return True
    return finding.severity is Severity.WARN and fault_of(finding.code).drains


@dataclass(frozen=True, slots=True)
class _Case:
    """One situation and what several rules need to know about it.

    ``own``    the record of the drain that is on the node now; None: Holdfast did not drain it.
    ``worst``  the finding for which the node should leave service; None: there is none.
    """

    situation: NodeSituation
    node: NodeView
    limits: Limits
    now: datetime
    own: DrainRecord | None
    worst: Finding | None

    @property
    def forget(self) -> bool:
        """The drain record exists, but the node no longer has that drain."""
        return self.situation.record is not None and self.own is None


def decide(situation: NodeSituation, limits: Limits, now: datetime) -> Decision:
    """One decision for this node at this moment."""
    node, record = situation.node, situation.record
    if situation.switched_off:
        return Decision(move=Move.NONE, why=SWITCHED_OFF)
    if node is None:
        return Decision(move=Move.NONE, why="slurmctld does not answer; nothing is changed")
    case = _Case(
        situation=situation,
        node=node,
        limits=limits,
        now=now,
        own=record if is_own_drain(record, node) else None,
        worst=draining(situation.verdict, situation.modes),
    )
    return next(decision for rule in _RULES if (decision := rule(case)) is not None)


# --- a return test is under way: the node is undrained inside a reservation


def _tested_by_others(case: _Case) -> Decision | None:
    if case.situation.reserved_by is not ReservedBy.OTHERS:
        return None
    return Decision(move=Move.NONE, why="under inspection; the inspection restores its state")


def _end_test(case: _Case) -> Decision | None:
    """Return the node if the test allows it, else restore the drain."""
    situation, test_result = case.situation, case.situation.test_result
    if situation.reserved_by is ReservedBy.NOBODY:
        return None
    record, blind = situation.record, situation.verdict.blind
    healthy = case.worst is None and not blind
    if (
        healthy
        and record is not None
        and test_result is not None
        and may_return(case.limits.return_test, test_result, record.reason)
    ):
        why = (
            f"{record.code} is over: {fulfilled_requirement(record.action)}, {test_result.summary}"
        )
        return Decision(move=Move.UNDRAIN, why=why, forget=True)
    if case.worst is not None:
        why = f"{case.worst.code} was found during the test: {case.worst.detail}"
    elif blind:
        why = _blind(situation)
    else:
        why = test_result.summary if test_result is not None else "a test was left unfinished"
    return Decision(move=Move.RESTORE, why=why)


# --- drained by Holdfast, and a fault is still open


def _withdraw(case: _Case) -> Decision | None:
    """Several agents drained at the same time and exceeded the budget; this one drained too late."""
    if case.own is None or case.worst is None or not case.situation.must_withdraw:
        return None
    text = _reason(case, case.worst, prefix=_OVER_BUDGET)
    return Decision(
        move=Move.WITHDRAW,
        why="over budget: other nodes were drained before this one",
        reason=text if may_comment(case.node, text) else "",
        forget=True,
        over_budget=True,
        finding=case.worst,
    )


def _requires_more(case: _Case) -> Decision | None:
    """The reason has to name the stronger action, else the node returns after the weaker one."""
    if case.own is None or case.worst is None:
        return None
    if _RANK[case.worst.action] <= _RANK[case.own.action]:
        return None
    why = f"{case.worst.code} requires {case.worst.action.value}, more than {case.own.code}"
    return _drain_for(case, case.worst, why)


def _other_fault(case: _Case) -> Decision | None:
    """The reason has to name a fault that is open, so that nobody looks for one that is over.

    It stays while the recorded fault requires the stronger action, and that has not happened.
    """
    if case.own is None or case.worst is None:
        return None
    if case.own.code in {finding.code for finding in case.situation.verdict.findings}:
        return None
    weaker = _RANK[case.worst.action] < _RANK[case.own.action]
    if weaker and pending_requirement(case.situation, case.node, case.own, case.limits, case.now):
        return None
    return _drain_for(case, case.worst, f"{case.own.code} is over, {case.worst.code} is open")


def _stay_drained(case: _Case) -> Decision | None:
    if case.own is None or case.worst is None:
        return None
    why = f"out of service for {case.own.code}: {case.worst.code} is open"
    return Decision(move=Move.NONE, why=why)


# --- drained by Holdfast, and no fault is open


def _wait_for_return(case: _Case) -> Decision | None:
    if case.own is None:
        return None
    missing = blocking_condition(case.situation, case.node, case.own, case.limits, case.now)
    if not missing:
        return None
    return Decision(move=Move.NONE, why=f"out of service for {case.own.code}: {missing}")


def _return(case: _Case) -> Decision | None:
    """Undrain the node, after its return test where the configuration requires one."""
    record, test_result = case.own, case.situation.test_result
    if record is None:
        return None
    passes = case.situation.clean_passes
    why = f"{record.code} is over: {fulfilled_requirement(record.action)}, {passes} clean passes"
    allowed = may_return(case.limits.return_test, test_result, record.reason)
    if allowed is None:
        return Decision(move=Move.TEST, why=f"{why}; an active check comes before its return")
    if allowed or test_result is None:
        return Decision(move=Move.UNDRAIN, why=why, forget=True)
    # The test failed: the reason stays, and the node's comment reports the test.
    text = str(Reason(record.code, f"re-test {test_result.summary}", _boot(case.situation)))
    move = Move.COMMENT if may_comment(case.node, text) else Move.NONE
    why = f"out of service for {record.code}: {test_result.summary}"
    return Decision(move=move, why=why, reason=text)


# --- not drained by Holdfast


def _drained_by_others(case: _Case) -> Decision | None:
    """A drain of a person or another tool stays. Only Holdfast's own outdated comment is cleared."""
    node, situation = case.node, case.situation
    if not node.drained_flag or (case.worst is not None and node.reason in _HOOK_REASONS):
        return None
    by = f"{node.reason_user or 'an unknown user'} ({node.reason or 'no reason'})"
    outdated = (
        _to_comment(situation) is None and not situation.verdict.blind and may_comment(node, "")
    )
    return Decision(
        move=Move.COMMENT if outdated else Move.NONE,
        why=f"drained by {by}, not by Holdfast",
        forget=case.forget,
    )


def _comment(case: _Case) -> Decision | None:
    """Nothing drains: show what a check may show in the node's comment, or clear an outdated one."""
    if case.worst is not None:
        return None
    finding = _to_comment(case.situation)
    if finding is None and case.situation.verdict.blind:
        return Decision(move=Move.NONE, why=_blind(case.situation), forget=case.forget)
    text = _reason(case, finding) if finding else ""
    why = f"{finding.code}: {finding.detail} (no drain)" if finding else "no finding"
    if not may_comment(case.node, text):
        return Decision(move=Move.NONE, why=why, forget=case.forget)
    return Decision(move=Move.COMMENT, why=why, reason=text, forget=case.forget)


def _failed_for_others(case: _Case) -> Decision | None:
    """The node is out of service anyway, and a drain would overwrite somebody else's reason."""
    if not _has_other_reason(case.node):
        return None
    return Decision(move=Move.NONE, why=_kept_reason(case.node), forget=case.forget)


def _over_budget(case: _Case) -> Decision | None:
    if case.worst is None or _admitted(case.situation):
        return None
    text = _reason(case, case.worst, prefix=_OVER_BUDGET)
    return _budget_comment(case.situation, case.node, text, forget=case.forget)


def _drain(case: _Case) -> Decision | None:
    if case.worst is None:
        return None
    return _drain_for(case, case.worst, f"{case.worst.code}: {case.worst.detail}")


_RULES: tuple[Callable[[_Case], Decision | None], ...] = (
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


def drain_lost(situation: NodeSituation, limits: Limits, now: datetime) -> Decision:
    """slurmctld restarted without the drain of ``record``, and nobody resumed the node: drain it again,
    unless it would have returned to service by now.
    """
    node, record = situation.node, situation.record
    assert node is not None and record is not None  # noqa: S101,PT018 - the caller checked both
    worst = draining(situation.verdict, situation.modes)
    lost = f"slurmctld lost the drain for {record.code}"
    if worst is None and not blocking_condition(situation, node, record, limits, now):
        return Decision(move=Move.NONE, why=f"{lost}, which is over", forget=True)
    if _has_other_reason(node):
        return Decision(move=Move.NONE, why=_kept_reason(node))
    if not _admitted(situation):
        old = Reason.parse(record.reason)
        detail, pairs = (old.detail, old.pairs) if old else ("", {})
        text = str(Reason(record.code, _OVER_BUDGET + detail, pairs))
        return _budget_comment(situation, node, text, forget=False)
    return Decision(move=Move.DRAIN, why=lost, reason=record.reason)


def _drain_for(case: _Case, finding: Finding, why: str) -> Decision:
    """Drain, or renew the reason of a drain of Holdfast's: then its count of returns is kept."""
    returns = flap_damping.count(case.situation.returns, finding.code, case.limits, case.now)
    if case.own is not None:
        returns = max(returns, case.own.returns)
    by_hand = flap_damping.needs_person(returns, case.limits) or (
        case.own is not None and case.own.by_hand
    )
    reason = _reason(
        case,
        finding,
        prefix=flap_damping.prefix(returns, case.limits) if by_hand else "",
        more={"returns": str(returns)} if returns else {},
    )
    return Decision(
        move=Move.DRAIN, why=why, reason=reason, finding=finding, returns=returns, by_hand=by_hand
    )


def _has_other_reason(node: NodeView) -> bool:
    """Out of service without the DRAIN flag, for a reason that Holdfast did not write."""
    return bool(node.states & FAILED and node.reason) and Reason.parse(node.reason) is None


def _kept_reason(node: NodeView) -> str:
    return f"already out of service; the reason {node.reason!r} is kept"


def _admitted(situation: NodeSituation) -> bool:
    """Only a budget that was counted admits a drain."""
    return situation.admission is not None and situation.admission.admitted


def _budget_comment(
    situation: NodeSituation, node: NodeView, text: str, *, forget: bool
) -> Decision:
    admission = situation.admission
    why = f"over budget: {admission.why}" if admission else "the drained nodes could not be counted"
    move = Move.COMMENT if may_comment(node, text) else Move.NONE
    return Decision(move=move, why=why, reason=text, forget=forget, over_budget=True)


def _to_comment(situation: NodeSituation) -> Finding | None:
    """The worst finding that may be shown in the node's comment."""
    shown = (Mode.COMMENT, Mode.DRAIN)
    return Verdict(
        findings=tuple(
            finding
            for finding in situation.verdict.findings
            if finding.severity >= Severity.WARN
            and situation.modes.get(finding.check, Mode.OBSERVE) in shown
        )
    ).worst


def _blind(situation: NodeSituation) -> str:
    return f"no answer from probes ({', '.join(situation.verdict.blind)})"


def _boot(situation: NodeSituation) -> dict[str, str]:
    return {"boot": situation.boot_id[:8]} if situation.boot_id else {}


def _reason(
    case: _Case, finding: Finding, *, prefix: str = "", more: Mapping[str, str] | None = None
) -> str:
    pairs = _boot(case.situation)
    if finding.gpu is not None:
        pairs["gpu"] = str(finding.gpu)
    marked = case.limits.node_problem and not prefix.startswith(_OVER_BUDGET)
    return str(Reason(finding.code, prefix + finding.detail, {**pairs, **(more or {})}, marked))
