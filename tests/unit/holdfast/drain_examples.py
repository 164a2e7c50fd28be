"""Nodes in states of Slurm, and a drain of Holdfast's with its record."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from holdfast.policy.ownership import DrainRecord
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import Action, NodeState, SlurmName

REASON = (
    "holdfast:XID63: GPU 2 0000:75:00 Xid 63: row remap; Xid 154 (GPU reset) requires reset-gpu"
)
AT = datetime(2026, 11, 21, 9, 0, tzinfo=timezone.utc)


def drained(reason: str = REASON, at: datetime = AT) -> SlurmNode:
    return replace(node(NodeState.IDLE, NodeState.DRAIN, reason=reason), reason_at=at)


def made(action: Action = Action.RESET_GPU, reason: str = REASON) -> DrainRecord:
    return DrainRecord(
        reason=reason,
        actor="root",
        at=AT,
        written_at=AT,
        code="XID63",
        action=action,
        boot_id="b-1",
        gpu=2,
    )


def node(*states: NodeState, reason: str = "", user: str = "root") -> SlurmNode:
    return SlurmNode(
        name=SlurmName("n1"), states=frozenset(states), reason=reason, reason_user=user
    )
