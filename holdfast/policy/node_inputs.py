"""What a decision about one node rests on, and what it can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.findings import Finding, Verdict
from holdfast.policy.budget import Admission
from holdfast.policy.flap_damping import Return
from holdfast.policy.ownership import DrainRecord, NodeView
from holdfast.policy.return_test import GateBack, Held, Trial
from holdfast.vocabulary import Mode


class Move(str, Enum):
    """What is to be done in Slurm."""

    NONE = "none"
    COMMENT = "comment"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    WITHDRAW = "withdraw"
    """Undo our drain because the budget is exceeded, and comment instead; the fault stays."""
    TEST = "test"
    """Run an active check on the drained node; what comes of it decides next."""
    RESTORE = "restore"
    """End a test: drain the node again with the reason that it had, and let go of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``recheck_passes``: clean passes in a row before a node is given back. ``wait_s``: the least
    time out of service for a fault that asks for nothing but time. The last three: ``policy.damping``."""

    recheck_passes: int = 2
    wait_s: float = 30.0
    gate: GateBack = GateBack.OFF
    node_problem: bool = False
    """Write reasons behind ``[node_problem] ``, for Soperator's own reaction."""
    max_wait_s: float = 3600.0
    return_window_s: float = 3600.0
    max_returns: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSituation:
    """Everything that the decision rests on.

    ``node``          as slurmctld sees it now; None: it does not answer.
    ``modes``         check name → what it may do; a check that is not named only observes.
    ``record``        our own drain, if we made one.
    ``clean_passes``  passes in a row, in this boot, in which every probe answered and nothing was
                      found that drains.
    ``gpu_recovered`` the drained GPU answers and asks for no recovery; None: could not look.
    ``admission``     the budget's answer; None: not asked, which admits nothing.
    ``must_withdraw`` our drain is among those beyond the budget (budget.withdrawals).
    ``switched_off``  the kill switch for every action is set.
    ``trial``         what came of the active check for this drain; None: it did not run.
    ``held``          whether a test of ours keeps the node.
    ``returns``       of this node, by its agent.
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
    trial: Trial | None = None
    held: Held = Held.NO
    returns: tuple[Return, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do and why.

    ``reason``  the drain's Reason (DRAIN), or the comment's text. Empty: clear the comment
                (COMMENT), or leave it as it is (WITHDRAW).
    ``finding`` what a DRAIN is for.
    ``forget``  the record describes no drain that stands any more: delete it.
    ``over_budget``  the node should leave and may not.
    ``returns``, ``by_hand``  of the record of a DRAIN. A DRAIN without a finding sets the drain of the
              record again.
    """

    move: Move
    why: str
    reason: str = ""
    finding: Finding | None = None
    forget: bool = False
    over_budget: bool = False
    returns: int = 0
    by_hand: bool = False
