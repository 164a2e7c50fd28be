"""The values that the agent's loop and the step in Slurm exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.findings import Finding, Verdict
from holdfast.policy.flap_damping import Return
from holdfast.policy.node import draining
from holdfast.policy.ownership import DrainRecord, Undrained
from holdfast.policy.return_test import ReturnTestResult
from holdfast.vocabulary import Mode
from slurm_hooks.agent.drain.record import Drained


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainInputs:
    """What a decision about the node is based on, at one moment.

    ``verdict``       all open findings, and the probes that gave no answer.
    ``modes``         what each check may do.
    ``passes``        passes over the probes since the agent's start.
    ``clean_passes``  passes in a row in which every probe answered and no finding that drains was open.
    ``recovered``     by GPU index, whether it answers and requires no action; empty: unknown.
    ``uuids``         of the GPUs that answered in the last pass.
    ``may_act``       False while actions are switched off.
    ``test_result``   result of the active check before the node's return, once it ran.
    ``returns``       earlier returns of this node to service by its agent.
    ``may_comment``   False if the comment was changed too often lately.
    """

    verdict: Verdict = field(default_factory=Verdict)
    modes: Mapping[str, Mode] = field(default_factory=dict)
    passes: int = 0
    clean_passes: int = 0
    recovered: Mapping[int, bool] = field(default_factory=dict)
    uuids: frozenset[str] = frozenset()
    may_act: bool = True
    test_result: ReturnTestResult | None = None
    returns: tuple[Return, ...] = ()
    may_comment: bool = True

    @property
    def worst(self) -> Finding | None:
        """The finding for which the node should leave service."""
        return draining(self.verdict, self.modes)

    @property
    def reportable(self) -> tuple[Finding, ...]:
        """The findings that may be reported to Slurm."""
        modes = (Mode.COMMENT, Mode.DRAIN)
        return tuple(f for f in self.verdict.findings if self.modes.get(f.check) in modes)

    @property
    def key(self) -> object:
        """Changes when there is something new to report to Slurm."""
        return frozenset((f.code, f.subject, f.action) for f in self.reportable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmStatus:
    """The node's state in Slurm, and the agent's last decision about it.

    ``action``     drain, comment, observe, none or over-budget: the last decision.
    ``reason``     the drain reason or comment that goes with it.
    ``drained``    slurmctld confirmed that the node is drained, by any user.
    ``why``        the reason of the decision, in words.
    ``problem``    why the last step in Slurm failed; empty: it did not.
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
    ``unwritten``      why the records are not on disk; empty: they are.
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
