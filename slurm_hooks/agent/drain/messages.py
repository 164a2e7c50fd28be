"""The values that the agent's loop and the step in Slurm exchange."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.policy.ownership import DrainRecord, Undrained
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
