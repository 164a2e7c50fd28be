"""Situations of one node, for the tests of its policy."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime, timedelta, timezone

from holdfast.findings import Finding, Verdict
from holdfast.policy.budget import Admission
from holdfast.policy.node_decision import decide
from holdfast.policy.node_inputs import DrainInputs, NodeDecision, NodeSituation, ReturnLimits
from holdfast.policy.ownership import DrainRecord
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import Action, Mode, NodeState, Severity, SlurmName

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
LATER = NOON + timedelta(hours=1)
BOOT, NEXT_BOOT = "aaaaaaaa-1", "bbbbbbbb-2"
LIMITS = ReturnLimits(recheck_passes=2, wait_s=30)
ROOM = Admission(admitted=True, out=0, allowed=2, total=4)
FULL = Admission(admitted=False, out=2, allowed=2, total=4)
DRAIN = {"gpu_xid": Mode.DRAIN}
FELL_OFF = Finding(
    code="XID79",
    severity=Severity.FATAL,
    subject="GPU-3",
    detail="GPU 3 has fallen off the bus",
    action=Action.REBOOT,
    gpu=3,
    check="gpu_xid",
)
OUR_TEXT = "holdfast:XID79: GPU 3 has fallen off the bus boot=aaaaaaaa gpu=3"
HEALTHY = Verdict()
BAD = Verdict(findings=(FELL_OFF,))
IDLE = SlurmNode(name=SlurmName("worker-1"), states=frozenset({NodeState.IDLE}))


def drained(
    reason: str = OUR_TEXT, user: str = "root", at: datetime = NOON, **more: object
) -> SlurmNode:
    node = replace(
        IDLE,
        states=frozenset({NodeState.IDLE, NodeState.DRAIN}),
        reason=reason,
        reason_user=user,
        reason_at=at,
    )
    return replace(node, **more)  # type: ignore[arg-type]


def record(action: Action = Action.REBOOT) -> DrainRecord:
    return DrainRecord(
        reason=OUR_TEXT,
        actor="root",
        at=NOON,
        written_at=NOON,
        code="XID79",
        action=action,
        boot_id=BOOT,
        instance_id="computeinstance-1",
        gpu=3,
    )


def situation(**about: object) -> NodeSituation:
    """``about``: fields of the situation or of its inputs that differ from a drain that is due."""
    names = {field.name for field in fields(DrainInputs)}
    inputs = {name: value for name, value in about.items() if name in names}
    base = NodeSituation(
        inputs=replace(DrainInputs(verdict=BAD, modes=DRAIN), **inputs),  # type: ignore[arg-type]
        node=IDLE,
        boot_id=BOOT,
        limits=LIMITS,
        now=LATER,
        admission=ROOM,
    )
    others = {name: value for name, value in about.items() if name not in names}
    return replace(base, **others)  # type: ignore[arg-type]


def ask(now: datetime = LATER, **about: object) -> NodeDecision:
    return decide(situation(now=now, **about))
