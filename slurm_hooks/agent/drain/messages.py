"""The values that the agent's loop and the step in Slurm exchange."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.policy.budget import Count
from holdfast.policy.node_inputs import Move, NodeDecision
from holdfast.policy.ownership import DrainRecord, Undrained, is_own_drain
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from slurm_hooks.agent.drain.node_table import KnownDomain
from slurm_hooks.agent.drain.record import Drained


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmStatus:
    """The node's state in Slurm, and the agent's last decision about it.

    ``action``     drain, comment, observe, none or over-budget: the last decision.
    ``reason``     the drain reason or comment that goes with it.
    ``drained``    slurmctld confirmed that the node is drained, by any user.
    ``why``        the reason of the decision, in words.
    ``problem``    why the last update of the node in Slurm failed, empty after a success.
    ``made``       the drain that this agent has on record; None: no drain of its own is set.
    ``commented``  the node's comment is Holdfast's and has to be cleared once it no longer applies.
    """

    action: str = "none"
    reason: str = ""
    drained: bool = False
    why: str = ""
    problem: str = ""
    made: DrainRecord | None = None
    commented: bool = False

    def failed(self, problem: str) -> SlurmStatus:
        return replace(self, problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change that a step made: ``text`` for the log, ``event`` for the history (names in
    ``holdfast.history.event``; empty: only the log). ``code``, ``subject``, ``gpu`` and the
    required ``action`` are those of the fault. ``check`` and ``verdict`` are those of an active
    check.
    """

    text: str
    event: str = ""
    code: str = ""
    subject: str = ""
    gpu: int | None = None
    action: str = ""
    check: str = ""
    verdict: str = ""

    @classmethod
    def about(cls, drained: Drained | None, text: str, event: str = "") -> AuditEntry:
        """An entry about this drain by Holdfast; None: about no drain."""
        if drained is None:
            return cls(text=text, event=event)
        record = drained.record
        return cls(
            text=text,
            event=event,
            code=record.code,
            subject=drained.subject,
            gpu=record.gpu,
            action=record.action.value,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step found and did.

    ``entries``        one for each change, in order.
    ``acknowledged``   a person resumed a node that Holdfast had drained.
    ``test_reason``    Reason of the drain that must not end before an active check; empty: no check is due.
    ``drained``        the drain record after the step.
    ``ended``          the records of the last drains that ended, the newest last.
    ``undrained``      the undrain of this step, which accounting still has to confirm.
    ``unwritten``      why the records are not on disk, empty if they are.
    ``comments``       how many times the comment was changed.
    ``comment_waits``  the comment was not changed because it was changed too often lately.
    ``count``          the newest count of the node table that is known. ``domain``: this node's failure domain.
    ``node``           this node before the step. ``looked``: slurmctld's number of changes before that.
    ``has_room``       the budget had plenty of room after a drain: to count it again is not urgent.
    """

    slurm_status: SlurmStatus
    entries: tuple[AuditEntry, ...] = ()
    acknowledged: bool = False
    test_reason: str = ""
    drained: Drained | None = None
    ended: tuple[Drained, ...] = ()
    undrained: Undrained | None = None
    unwritten: str = ""
    comments: int = 0
    comment_waits: bool = False
    count: Count | None = None
    domain: KnownDomain | None = None
    has_room: bool = False
    node: SlurmNode | None = None
    looked: tuple[int, int] | None = None


def status_after(
    decision: NodeDecision, node: SlurmNode, drained: Drained | None, *, written: bool = True
) -> SlurmStatus:
    """The status after a decision that neither drained nor undrained the node. ``written``: a comment
    that was decided was written."""
    own_drain = drained is not None and is_own_drain(drained.record, node)
    action = "none"
    wrote_comment = decision.move is Move.COMMENT and written
    commented = bool(decision.reason) if wrote_comment else has_own_comment(node)
    if decision.over_budget:
        action = "over-budget"
    elif own_drain:
        action = "drain"
    elif decision.move is Move.COMMENT and decision.reason:
        action = "comment"
    return SlurmStatus(
        action=action,
        reason=node.reason if node.drained_flag else decision.reason,
        drained=node.drained_flag,
        why=decision.why,
        commented=commented or decision.over_budget,
    )


def has_own_comment(node: SlurmNode) -> bool:
    """True if Holdfast wrote the node's comment."""
    return Reason.parse(node.comment) is not None
