"""Law 4: what Holdfast takes out stays within the budget, whoever counts and whenever."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.adapters.slurm import SlurmNode
from holdfast.policy.budget import admit, allowed, is_charged, withdrawals
from holdfast.vocabulary import NodeState, SlurmName

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
OURS = "holdfast:XID79: GPU 3 boot=abcdef01"
HUMAN = "swapping DIMM"
CORDON = "holdfast:KUBE_CORDON: cordoned"


@dataclass(frozen=True)
class Budget:
    max_nodes: int = 2
    max_share: float = 0.1


def node(number: int, reason: str = "", second: int = 0) -> SlurmNode:
    drained = {NodeState.DRAIN} if reason else set()
    return SlurmNode(
        name=SlurmName(f"worker-{number}"),
        states=frozenset({NodeState.IDLE} | drained),
        reason=reason,
        reason_user="root" if reason else "",
        reason_at=NOON + timedelta(seconds=second) if reason else None,
    )


@pytest.mark.parametrize(
    ("max_nodes", "share", "total", "expected"),
    [(2, 0.1, 4, 2), (2, 0.1, 30, 3), (0, 0.0, 100, 0), (1, 0.29, 100, 29), (2, 1.0, 5, 5)],
)
def test_the_larger_of_count_and_share(
    max_nodes: int, share: float, total: int, expected: int
) -> None:
    assert allowed(Budget(max_nodes, share), total) == expected


def test_only_our_own_judgement_is_charged() -> None:
    assert is_charged(node(1, OURS))
    assert not is_charged(node(1, HUMAN))
    assert not is_charged(node(1, CORDON))
    left_over = replace(node(1, OURS), states=frozenset({NodeState.IDLE}))
    assert not is_charged(left_over)  # Slurm may show the reason of a drain that is over


def test_humans_drains_do_not_use_up_the_budget() -> None:
    table = [node(0), node(1, HUMAN), node(2, HUMAN), node(3, CORDON)]
    assert admit(SlurmName("worker-0"), table, Budget()).admitted


def test_past_the_budget_nobody_leaves_and_who_is_out_stays_admitted() -> None:
    table = [node(0), node(1, OURS), node(2, OURS)]
    refused = admit(SlurmName("worker-0"), table, Budget())
    assert not refused.admitted
    assert refused.why == "2 of at most 2 nodes are out by Holdfast"
    assert admit(SlurmName("worker-1"), table, Budget()).admitted


def test_surplus_withdraws_by_time_and_then_name() -> None:
    table = [node(3, OURS, 5), node(1, OURS, 5), node(2, OURS, 0), node(0)]
    assert withdrawals(table, Budget()) == ("worker-3",)
    assert withdrawals(table[2:], Budget()) == ()


def test_future_nodes_do_not_count_as_cluster() -> None:
    ghosts = [
        SlurmNode(name=SlurmName(f"f{i}"), states=frozenset({NodeState.FUTURE})) for i in range(90)
    ]
    assert admit(SlurmName("worker-0"), [node(0), *ghosts], Budget()).total == 1


NODES = st.lists(
    st.tuples(st.sampled_from(["", OURS, HUMAN, CORDON]), st.integers(0, 3)), max_size=25
).map(lambda rows: [node(i, reason, second) for i, (reason, second) in enumerate(rows)])
BUDGETS = st.builds(Budget, st.integers(0, 5), st.sampled_from([0.0, 0.1, 0.3, 1.0]))


@settings(max_examples=300, deadline=None)
@given(NODES, BUDGETS, st.randoms(use_true_random=False))
def test_after_the_withdrawals_exactly_the_budget_is_out(
    table: list[SlurmNode], budget: Budget, random: object
) -> None:
    shuffled = list(table)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    leaving = withdrawals(table, budget)
    # Every agent computes the same, in whatever order Slurm printed the table.
    assert withdrawals(shuffled, budget) == leaving
    out = {row.name for row in table if is_charged(row)}
    assert set(leaving) <= out
    assert len(out - set(leaving)) == min(len(out), allowed(budget, len(table)))


@settings(max_examples=300, deadline=None)
@given(NODES, BUDGETS, st.lists(st.integers(0, 24), max_size=25))
def test_agents_that_ask_one_after_the_other_never_exceed_it(
    table: list[SlurmNode], budget: Budget, asking: list[int]
) -> None:
    most = max(allowed(budget, len(table)), sum(map(is_charged, table)))
    for number in asking:
        free = number < len(table) and not table[number].drained_flag
        if free and admit(table[number].name, table, budget).admitted:
            table[number] = node(number, OURS)
        assert sum(map(is_charged, table)) <= most


@settings(max_examples=200, deadline=None)
@given(NODES, BUDGETS)
def test_agents_that_all_drain_at_once_settle_within_it(
    table: list[SlurmNode], budget: Budget
) -> None:
    """Each saw room, all drained in the same second, each counts again and obeys."""
    drained = [row if row.drained_flag else node(i, OURS, 9) for i, row in enumerate(table)]
    leaving = set(withdrawals(drained, budget))
    settled = [node(i) if row.name in leaving else row for i, row in enumerate(drained)]
    assert withdrawals(settled, budget) == ()
    humans = [row.reason for row in table if row.reason in (HUMAN, CORDON)]
    assert [row.reason for row in settled if row.reason in (HUMAN, CORDON)] == humans
