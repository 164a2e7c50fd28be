"""The inputs of a decision about one node, and the decision itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from holdfast.faults import fault_of
from holdfast.findings import Finding, Verdict
from holdfast.policy.budget import Admission, Count
from holdfast.policy.flap_damping import Return
from holdfast.policy.ownership import DrainRecord, NodeView, is_own_drain
from holdfast.policy.return_test import ReservedBy, ReturnTestMode, ReturnTestResult
from holdfast.vocabulary import Mode, Severity


class Move(str, Enum):
    """What to do in Slurm."""

    NONE = "none"
    COMMENT = "comment"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    WITHDRAW = "withdraw"
    """Undo Holdfast's drain because the budget is exceeded, and comment instead; the fault is still open."""
    TEST = "test"
    """Run an active check on the drained node; the next decision uses its result."""
    RESTORE = "restore"
    """End a test: drain the node again with its previous reason, and delete the test's reservation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnLimits:
    """``recheck_passes``: clean passes in a row before a node returns to service. ``wait_s``: the minimum
    time out of service for a fault that requires only time. The last three: see ``policy.flap_damping``."""

    recheck_passes: int = 2
    wait_s: float = 30.0
    return_test: ReturnTestMode = ReturnTestMode.OFF
    node_problem: bool = False
    """Prefix reasons with ``[node_problem] ``, to which Soperator reacts."""
    max_wait_s: float = 3600.0
    return_window_s: float = 3600.0
    max_returns: int = 4


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
    ``recount``       the budget has to be counted although the node is drained: others may have drained
                      at the same time.
    ``count``         the newest count of the node table that this node's agent knows.
    ``job_start_s``   when the last job started here, in seconds since boot; 0: none.
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
    recount: bool = False
    count: Count | None = None
    job_start_s: float = 0.0

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
class NodeSituation:
    """Everything that one decision depends on.

    ``inputs``        what the agent knows without Slurm.
    ``node``          as slurmctld shows it now.
    ``now``           timezone-aware.
    ``record``        the drain that this node's agent set, if it set one.
    ``gpu_recovered`` the drained GPU answers and requires no recovery action; None: unknown.
    ``admission``     the budget's answer; None: not counted, which admits nothing.
    ``must_withdraw`` this drain is among those beyond the budget (``budget.withdrawals``).
    ``reserved_by``   whose reservation keeps other jobs off the node for a test.
    """

    inputs: DrainInputs
    node: NodeView
    boot_id: str
    limits: ReturnLimits
    now: datetime
    record: DrainRecord | None = None
    gpu_recovered: bool | None = None
    admission: Admission | None = None
    must_withdraw: bool = False
    reserved_by: ReservedBy = ReservedBy.NOBODY

    @property
    def own(self) -> DrainRecord | None:
        """The record of the drain that is on the node now; None: Holdfast did not drain it."""
        return self.record if is_own_drain(self.record, self.node) else None

    @property
    def forget(self) -> bool:
        """The drain record exists, but the node no longer has that drain."""
        return self.record is not None and self.own is None

    @property
    def worst(self) -> Finding | None:
        """The finding for which the node should leave service; None: there is none."""
        return self.inputs.worst


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDecision:
    """What to do and why.

    ``reason``  the drain's Reason (DRAIN), or the comment's text. Empty: clear the comment
                (COMMENT), or leave it as it is (WITHDRAW).
    ``finding`` the fault of a DRAIN. A DRAIN without one sets the recorded drain again.
    ``forget``  the recorded drain is gone: delete the record.
    ``over_budget``  the node should leave service, and the budget does not admit it.
    ``returns``, ``by_hand``  go into the record of a DRAIN (see ``DrainRecord``).
    """

    move: Move
    why: str
    reason: str = ""
    finding: Finding | None = None
    forget: bool = False
    over_budget: bool = False
    returns: int = 0
    by_hand: bool = False
