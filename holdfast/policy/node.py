"""What to do about one node: pure, from what is known to one decision with its why.

Laws in force: a human's drain is never touched (3); a node is given back only on evidence, after
what the fault asked for and a re-check that followed it (3); past the budget a node stays (4);
every check does at most what its mode allows (5); nothing is sent twice (6); blindness is neither
health nor fault (2).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from holdfast.faults import fault_of
from holdfast.findings import Finding, Verdict
from holdfast.policy import flap_damping
from holdfast.policy.comments import may_comment
from holdfast.policy.node_inputs import Decision, Limits, Move, NodeSituation
from holdfast.policy.ownership import DrainRecord, NodeView, is_ours
from holdfast.policy.return_conditions import done, not_yet, waits_for
from holdfast.policy.return_test import Held, Trial, opens
from holdfast.reason import Reason
from holdfast.vocabulary import Action, Mode, NodeState, Severity

_LEFT_BY_OTHERS = {NodeState.DOWN, NodeState.FAIL, NodeState.ERROR}
_HOOK_REASONS = {"Prolog error", "Epilog error"}
"""What slurmctld itself writes when a hook exits non-zero; ours does so only for a bad node. While
the fault is there the cause takes the place of the consequence, so that the drain can be undone."""
SWITCHED_OFF = "switched off: off/all beside the configuration"
_OVER_BUDGET = "over budget: "
_RANK = {action: rank for rank, action in enumerate(Action)}


def draining(verdict: Verdict, modes: Mapping[str, Mode]) -> Finding | None:
    """The finding for which the node should leave service: the worst whose check and code may. One
    that no user could bring about comes first: it has the larger part of the budget."""
    may = [finding for finding in verdict.findings if _may_drain(finding, modes)]
    others = [finding for finding in may if not fault_of(finding.code).by_users]
    return Verdict(findings=tuple(others or may)).worst


def _may_drain(finding: Finding, modes: Mapping[str, Mode]) -> bool:
    if modes.get(finding.check, Mode.OBSERVE) is not Mode.DRAIN:
        return False
    if finding.severity is Severity.FATAL:
        return True
    return finding.severity is Severity.WARN and fault_of(finding.code).drains


def decide(situation: NodeSituation, limits: Limits, now: datetime) -> Decision:
    """One decision for this node at this moment."""
    node, record = situation.node, situation.record
    if situation.switched_off:
        return Decision(move=Move.NONE, why=SWITCHED_OFF)
    if node is None:
        return Decision(move=Move.NONE, why="slurmctld does not answer; what stands there stays")
    worst = draining(situation.verdict, situation.modes)
    if situation.held is not Held.NO:
        return _about_test(situation, record, worst, limits)
    if is_ours(record, node) and record is not None:
        return _about_ours(situation, node, record, worst, limits, now)
    forget = record is not None
    ours_by_hook = worst is not None and node.reason in _HOOK_REASONS
    if node.drained_flag and not ours_by_hook:
        who = f"{node.reason_user or 'somebody'} ({node.reason or 'no reason'})"
        # The drain is theirs; a comment of ours about a fault that is over is not.
        over = _told(situation) is None and not situation.verdict.blind and may_comment(node, "")
        return Decision(
            move=Move.COMMENT if over else Move.NONE,
            why=f"drained by {who}: not ours to touch",
            forget=forget,
        )
    if worst is None:
        return _comment(situation, node, limits, forget=forget)
    return _leave_service(situation, node, worst, limits, now, forget=forget)


def _leave_service(
    situation: NodeSituation,
    node: NodeView,
    worst: Finding,
    limits: Limits,
    now: datetime,
    *,
    forget: bool,
) -> Decision:
    theirs = node.reason and Reason.parse(node.reason) is None
    if node.states & _LEFT_BY_OTHERS and theirs:
        why = f"out of service already, and the reason {node.reason!r} is not ours to overwrite"
        return Decision(move=Move.NONE, why=why, forget=forget)
    admission = situation.admission
    if admission is None or not admission.admitted:
        why = f"over budget: {admission.why}" if admission else "the budget could not be counted"
        return _say(node, _reason(worst, situation, limits, prefix=_OVER_BUDGET), why, forget)
    return _drain(worst, f"{worst.code}: {worst.detail}", situation, limits, now)


def _drain(
    worst: Finding,
    why: str,
    situation: NodeSituation,
    limits: Limits,
    now: datetime,
    record: DrainRecord | None = None,
) -> Decision:
    """``record``: of our own drain that stands there already; how often the node came back before it
    counts for the new one too.
    """
    returns = flap_damping.count(situation.returns, worst.code, limits, now)
    if record is not None:
        returns = max(returns, record.returns)
    by_hand = flap_damping.asks_person(returns, limits) or (record is not None and record.by_hand)
    reason = _reason(
        worst,
        situation,
        limits,
        prefix=flap_damping.prefix(returns, limits) if by_hand else "",
        more={"returns": str(returns)} if returns else {},
    )
    return Decision(
        move=Move.DRAIN, why=why, reason=reason, finding=worst, returns=returns, by_hand=by_hand
    )


def drain_lost(situation: NodeSituation, limits: Limits, now: datetime) -> Decision:
    """slurmctld came back without our drain (``record``), and no person ended it: the drain is set again,
    unless the node would have returned by now.
    """
    node, record = situation.node, situation.record
    assert node is not None and record is not None  # noqa: S101,PT018 - the caller has seen both
    worst = draining(situation.verdict, situation.modes)
    lost = f"slurmctld lost the drain for {record.code}"
    if worst is None and not not_yet(situation, node, record, limits, now):
        return Decision(move=Move.NONE, why=f"{lost}, which is over", forget=True)
    if node.states & _LEFT_BY_OTHERS and node.reason and Reason.parse(node.reason) is None:
        why = f"out of service already, and the reason {node.reason!r} is not ours to overwrite"
        return Decision(move=Move.NONE, why=why)
    admission = situation.admission
    if admission is None or not admission.admitted:
        why = f"over budget: {admission.why}" if admission else "the budget could not be counted"
        was = Reason.parse(record.reason)
        detail, pairs = (was.detail, was.pairs) if was else ("", {})
        return _say(node, str(Reason(record.code, _OVER_BUDGET + detail, pairs)), why, False)
    return Decision(move=Move.DRAIN, why=lost, reason=record.reason)


def _say(node: NodeView, text: str, why: str, forget: bool) -> Decision:
    move = Move.COMMENT if may_comment(node, text) else Move.NONE
    return Decision(move=move, why=why, reason=text, forget=forget, over_budget=True)


def _about_ours(
    situation: NodeSituation,
    node: NodeView,
    record: DrainRecord,
    worst: Finding | None,
    limits: Limits,
    now: datetime,
) -> Decision:
    if worst is not None:
        return _still_bad(situation, node, record, worst, limits, now)
    missing = not_yet(situation, node, record, limits, now)
    if missing:
        return Decision(move=Move.NONE, why=f"out of service for {record.code}: {missing}")
    why = f"{record.code} is over: {done(record.action)}, {situation.clean_passes} clean passes"
    may_return = opens(limits.gate, situation.trial, record.reason)
    if may_return is None:
        return Decision(move=Move.TEST, why=f"{why}; an active check comes before its return")
    if not may_return and situation.trial is not None:
        return _refused(situation, node, record, situation.trial)
    return Decision(move=Move.UNDRAIN, why=why, forget=True)


def _refused(
    situation: NodeSituation, node: NodeView, record: DrainRecord, trial: Trial
) -> Decision:
    """The test was not passed: the node stays out with its reason, and its comment says why."""
    pairs = {"boot": situation.boot_id[:8]} if situation.boot_id else {}
    text = str(Reason(record.code, f"re-test {trial.said}", pairs))
    move = Move.COMMENT if may_comment(node, text) else Move.NONE
    why = f"out of service for {record.code}: {trial.said}"
    return Decision(move=move, why=why, reason=text)


def _about_test(
    situation: NodeSituation, record: DrainRecord | None, worst: Finding | None, limits: Limits
) -> Decision:
    """The node is undrained, or about to be, for a test that keeps everybody else off it."""
    trial = situation.trial
    if situation.held is Held.BY_OTHERS:
        return Decision(move=Move.NONE, why="under inspection; who inspects puts it back")
    fit = record is not None and worst is None and not situation.verdict.blind
    if (
        fit
        and record is not None
        and trial is not None
        and opens(limits.gate, trial, record.reason)
    ):
        why = f"{record.code} is over: {done(record.action)}, {trial.said}"
        return Decision(move=Move.UNDRAIN, why=why, forget=True)
    if worst is not None:
        why = f"{worst.code} came up during the test: {worst.detail}"
    elif situation.verdict.blind:
        why = f"cannot look ({', '.join(situation.verdict.blind)})"
    else:
        why = trial.said if trial is not None else "a test was left unfinished"
    return Decision(move=Move.RESTORE, why=why)


def _still_bad(
    situation: NodeSituation,
    node: NodeView,
    record: DrainRecord,
    worst: Finding,
    limits: Limits,
    now: datetime,
) -> Decision:
    if situation.must_withdraw:
        why = "others drained in the same moment and came first: over budget"
        text = _reason(worst, situation, limits, prefix=_OVER_BUDGET)
        text = text if may_comment(node, text) else ""
        return Decision(
            move=Move.WITHDRAW, why=why, reason=text, forget=True, over_budget=True, finding=worst
        )
    if _RANK[worst.action] > _RANK[record.action]:
        # What is asked for grew: the reason must say so, or the node returns after too little.
        why = f"{worst.code} asks for {worst.action.value}, more than {record.code} did"
        return _drain(worst, why, situation, limits, now, record)
    open_codes = {finding.code for finding in situation.verdict.findings}
    asks_less = _RANK[worst.action] < _RANK[record.action]
    if record.code not in open_codes and not (
        asks_less and waits_for(situation, node, record, limits, now)
    ):
        # Whoever reads the reason must not look for a fault that is over.
        why = f"{record.code} is over, {worst.code} is there"
        return _drain(worst, why, situation, limits, now, record)
    return Decision(move=Move.NONE, why=f"out of service for {record.code}: {worst.code} is there")


def _comment(situation: NodeSituation, node: NodeView, limits: Limits, *, forget: bool) -> Decision:
    """No reason to drain: say what is seen, where a check may; take back what is over."""
    told = _told(situation)
    text = _reason(told, situation, limits) if told else ""
    if told is None and situation.verdict.blind:
        why = f"cannot look ({', '.join(situation.verdict.blind)})"
        return Decision(move=Move.NONE, why=why, forget=forget)
    why = f"{told.code}: {told.detail} (no drain)" if told else "nothing against this node"
    if not may_comment(node, text):
        return Decision(move=Move.NONE, why=why, forget=forget)
    return Decision(move=Move.COMMENT, why=why, reason=text, forget=forget)


def _told(situation: NodeSituation) -> Finding | None:
    """The worst finding that may stand in the node's comment."""
    audible = (Mode.COMMENT, Mode.DRAIN)
    return Verdict(
        findings=tuple(
            f
            for f in situation.verdict.findings
            if f.severity >= Severity.WARN and situation.modes.get(f.check, Mode.OBSERVE) in audible
        )
    ).worst


def _reason(
    finding: Finding,
    situation: NodeSituation,
    limits: Limits,
    *,
    prefix: str = "",
    more: Mapping[str, str] | None = None,
) -> str:
    pairs = {"boot": situation.boot_id[:8]} if situation.boot_id else {}
    if finding.gpu is not None:
        pairs["gpu"] = str(finding.gpu)
    marked = limits.node_problem and not prefix.startswith(_OVER_BUDGET)
    return str(Reason(finding.code, prefix + finding.detail, {**pairs, **(more or {})}, marked))
