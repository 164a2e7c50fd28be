"""When a running job leaves its degraded nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.faults import ALL_FAULTS
from holdfast.policy.job.degraded_nodes import DegradedFacts, Move, decide
from holdfast.vocabulary import Severity

PATIENCE_S = 3600.0
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
    ],
)
def test_the_next_step(facts: DegradedFacts, move: Move) -> None:
    assert decide(facts, PATIENCE_S) is move


def test_a_site_can_have_jobs_stay() -> None:
    assert decide(FACTS, 0.0) is Move.STAY
    assert decide(replace(FACTS, asked_s=9.0, written=True), 0.0) is Move.STAY


def test_only_faults_that_drain_and_let_jobs_go_on_move_them() -> None:
    moving = [row for row in ALL_FAULTS if row.moves_jobs]
    assert {"IB_RATE", "GPU_THERMAL", "KERNEL_OOPS"} <= {row.code for row in moving}
    assert all(row.severity is Severity.WARN and row.drains for row in moving)
    assert not any(row.by_users for row in moving), "a user must not move the jobs of others"
