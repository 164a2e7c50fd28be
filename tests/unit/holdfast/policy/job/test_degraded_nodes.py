"""When a running job leaves its degraded nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.faults import ALL_FAULTS
from holdfast.policy.job.degraded_nodes import DegradedFacts, Move, MoveLimits, decide
from holdfast.vocabulary import Severity

PATIENCE_S = 3600.0
LIMITS = MoveLimits(patience_s=PATIENCE_S, notice_s=600.0)
FACTS = DegradedFacts(count=2, requeue=True, idle=2, asked_s=None)


@pytest.mark.parametrize(
    ("facts", "move"),
    [
        (FACTS, Move.ASK),
        (replace(FACTS, count=0), Move.STAY),
        (replace(FACTS, requeue=False), Move.STAY),
        (replace(FACTS, idle=1), Move.STAY),
        (replace(FACTS, idle=None), Move.STAY),
        (replace(FACTS, asked_s=5.0), Move.WAIT),
        (replace(FACTS, asked_s=5.0, written=True), Move.LEAVE),
        (replace(FACTS, asked_s=5.0, written=True, idle=1), Move.WAIT),
        (replace(FACTS, asked_s=5.0, written=True, idle=None), Move.WAIT),
        (replace(FACTS, asked_s=PATIENCE_S), Move.GIVE_UP),
        (replace(FACTS, asked_s=PATIENCE_S, written=True, idle=0), Move.GIVE_UP),
        (replace(FACTS, asked_s=PATIENCE_S, written=True), Move.LEAVE),
        (replace(FACTS, left_s=601.0, idle=0), Move.STAY),
        (replace(FACTS, left_s=601.0), Move.ASK),
        (replace(FACTS, left_s=601.0, asked_s=PATIENCE_S, idle=0), Move.WAIT),
        (replace(FACTS, left_s=600.0, idle=None), Move.ASK),
        (replace(FACTS, left_s=31.0, asked_s=5.0, idle=0), Move.WAIT),
        (replace(FACTS, left_s=31.0, asked_s=5.0, written=True, idle=0), Move.LEAVE),
        (replace(FACTS, left_s=30.0, asked_s=5.0), Move.LEAVE),
        (replace(FACTS, left_s=-5.0), Move.LEAVE),
        (replace(FACTS, left_s=30.0, requeue=False), Move.STAY),
    ],
)
def test_the_next_step(facts: DegradedFacts, move: Move) -> None:
    assert decide(facts, LIMITS) is move


def test_a_site_can_have_jobs_stay() -> None:
    never = replace(LIMITS, patience_s=0.0)
    assert decide(FACTS, never) is Move.STAY
    assert decide(replace(FACTS, asked_s=9.0, written=True), never) is Move.STAY
    assert decide(replace(FACTS, left_s=20.0), never) is Move.STAY


def test_only_faults_that_drain_and_let_jobs_go_on_move_them() -> None:
    moving = [row for row in ALL_FAULTS if row.moves_jobs]
    assert {"IB_RATE", "GPU_THERMAL", "KERNEL_OOPS"} <= {row.code for row in moving}
    assert all(row.severity is Severity.WARN and row.drains for row in moving)
    assert not any(row.by_users for row in moving), "a user must not move the jobs of others"
