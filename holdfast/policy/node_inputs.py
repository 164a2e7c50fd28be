"""The inputs of a decision about one node, and the decision itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.findings import Finding, Verdict
from holdfast.policy.budget import Admission
from holdfast.policy.flap_damping import Return
from holdfast.policy.ownership import DrainRecord, NodeView
from holdfast.policy.return_test import ReservedBy, ReturnTestMode, ReturnTestResult
from holdfast.vocabulary import Mode


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
class Limits:
    """``recheck_passes``: clean passes in a row before a node returns to service. ``wait_s``: the minimum
    time out of service for a fault that requires only time. The last three: ``policy.flap_damping``."""

    recheck_passes: int = 2
    wait_s: float = 30.0
    return_test: ReturnTestMode = ReturnTestMode.OFF
    node_problem: bool = False
    """Prefix reasons with ``[node_problem] ``, to which Soperator reacts."""
    max_wait_s: float = 3600.0
    return_window_s: float = 3600.0
    max_returns: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSituation:
    """Everything that the decision depends on.

    ``node``          as slurmctld shows it now; None: slurmctld does not answer.
    ``modes``         check name → what it may do; a check that is not listed only observes.
    ``record``        the drain that this node's agent set, if it set one.
    ``clean_passes``  passes in a row, in this boot, in which every probe answered and nothing that
                      drains was found.
    ``gpu_recovered`` the drained GPU answers and requires no recovery action; None: unknown.
    ``admission``     the budget's answer; None: not counted, which admits nothing.
    ``must_withdraw`` this drain is among those beyond the budget (``budget.withdrawals``).
    ``switched_off``  the kill switch for every action (``off/all``) is set.
    ``test_result``   the result of the active check for this drain; None: it did not run.
    ``reserved_by``   whose reservation keeps other jobs off the node for a test.
    ``returns``       the returns of this node to service that its agent made.
    """

    verdict: Verdict
    node: NodeView | None
    boot_id: str
    modes: Mapping[str, Mode] = field(default_factory=dict)
    record: DrainRecord | None = None
    clean_passes: int = 0
    gpu_recovered: bool | None = None
    admission: Admission | None = None
    must_withdraw: bool = False
    switched_off: bool = False
    test_result: ReturnTestResult | None = None
    reserved_by: ReservedBy = ReservedBy.NOBODY
    returns: tuple[Return, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
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
