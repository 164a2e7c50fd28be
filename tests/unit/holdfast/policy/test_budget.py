"""Rule 4: the nodes that Holdfast takes out of service stay within the budget, whichever agent counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.policy.budget import (
    SPARE,
    Admission,
    Count,
    admit,
    allowed,
    allowed_by_users,
    is_by_users,
    is_charged,
    newest,
    withdrawals,
)
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
OURS = "holdfast:XID79: GPU 3 boot=abcdef01"
HUMAN = "swapping DIMM"
FULL = "holdfast:DISK_FULL: / has no room boot=abcdef01"
CORDON = "holdfast:KUBE_CORDON: cordoned"


@dataclass(frozen=True)
class Budget:
    max_nodes: int = 2
    max_share: float = 0.1
    users_share: float = 0.5


def node(number: int, reason: str = "", second: int = 0) -> SlurmNode:
    drained = {NodeState.DRAIN} if reason else set()
    return SlurmNode(
        name=SlurmName(f"worker-{number}"),
        states=frozenset({NodeState.IDLE} | drained),
        reason=reason,
        reason_user="root" if reason else "",
        reason_at=NOON + timedelta(seconds=second) if reason else None,
    )


def ask(number: int, table: list[SlurmNode], code: str = "XID79") -> Admission:
    return admit(SlurmName(f"worker-{number}"), table, Budget(), code)


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


@pytest.mark.parametrize(
    ("reason", "charged"),
    [
        ("holdfast:NODE_DEATH: silent for 2.1 s", True),
        (
            OURS,
            False,
        ),  # DOWN has another cause: Holdfast sets nodes DOWN only because they are dead
        (FULL, False),
        (HUMAN, False),
    ],
)
def test_of_the_nodes_that_are_down_only_dead_ones_are_charged(reason: str, charged: bool) -> None:
    down = replace(node(0), states=frozenset({NodeState.DOWN}), reason=reason)
    assert is_charged(down) is charged


def test_humans_drains_do_not_use_up_the_budget() -> None:
    table = [node(0), node(1, HUMAN), node(2, HUMAN), node(3, CORDON)]
    assert ask(0, table).admitted


def test_beyond_the_budget_no_node_leaves_and_drained_nodes_stay_admitted() -> None:
    table = [node(0), node(1, OURS), node(2, OURS)]
    refused = ask(0, table)
    assert not refused.admitted
    assert refused.why == "2 of at most 2 nodes are out of service by Holdfast"
    assert ask(1, table).admitted


def test_surplus_withdraws_by_time_and_then_name() -> None:
    table = [node(3, OURS, 5), node(1, OURS, 5), node(2, OURS, 0), node(0)]
    assert withdrawals(table, Budget()) == ("worker-3",)
    assert withdrawals(table[2:], Budget()) == ()


def test_the_latest_drain_withdraws_whatever_its_name() -> None:
    table = [node(1, OURS, 9), node(2, OURS, 0), node(3, OURS, 5)]
    assert withdrawals(table, Budget()) == ("worker-1",)


def test_a_drain_without_a_time_counts_as_the_latest() -> None:
    table = [replace(node(1, OURS), reason_at=None), node(2, OURS, 0), node(3, OURS, 5)]
    assert withdrawals(table, Budget()) == ("worker-1",)


def test_future_nodes_do_not_count_as_cluster() -> None:
    ghosts = [
        SlurmNode(name=SlurmName(f"f{i}"), states=frozenset({NodeState.FUTURE})) for i in range(90)
    ]
    assert ask(0, [node(0), *ghosts]).total == 1


@pytest.mark.parametrize(
    ("max_nodes", "share", "users", "expected"),
    [(2, 0.0, 0.5, 1), (1, 0.0, 0.5, 0), (10, 0.0, 0.3, 3), (3, 0.0, 0.0, 0), (3, 0.0, 1.0, 3)],
)
def test_users_have_a_part_of_the_budget(
    max_nodes: int, share: float, users: float, expected: int
) -> None:
    assert allowed_by_users(Budget(max_nodes, share, users), 4) == expected


def test_a_part_that_is_exceeded_admits_nobody() -> None:
    """As after a reduction of users_share."""
    table = [node(0), node(1, FULL), node(2, FULL), *(node(number) for number in range(3, 9))]
    smaller = Budget(max_nodes=4, max_share=0.0, users_share=0.25)
    refused = admit(SlurmName("worker-0"), table, smaller, "DISK_FULL")
    assert (refused.admitted, refused.out, refused.allowed) == (False, 2, 1)


def test_full_disks_do_not_use_up_the_budget_for_hardware() -> None:
    table = [node(0), node(1, FULL), node(2)]
    assert is_by_users(table[1])
    refused = ask(0, table, "DISK_FULL")
    assert not refused.admitted
    assert (
        refused.why
        == "1 of at most 1 nodes are out of service by Holdfast for faults that users can cause"
    )
    assert not ask(0, table, "JOB_LEFTOVER").admitted, "one part for all that users can cause"
    assert ask(0, table, "XID79").admitted
    assert ask(1, table, "DISK_FULL").admitted, "who is out stays"


def test_hardware_counts_only_against_the_whole_budget() -> None:
    table = [node(0), node(1, OURS), node(2, OURS)]
    assert ask(0, table, "DISK_FULL").why == "2 of at most 2 nodes are out of service by Holdfast"
    assert ask(0, table[:2], "DISK_FULL").admitted


def test_beyond_the_users_part_their_own_withdraw_first() -> None:
    table = [node(0, FULL, 0), node(1, FULL, 1), node(2, OURS, 2), node(3)]
    assert withdrawals(table, Budget()) == ("worker-1",)


NODES = st.lists(
    st.tuples(st.sampled_from(["", OURS, FULL, HUMAN, CORDON]), st.integers(0, 3)), max_size=25
).map(lambda rows: [node(i, reason, second) for i, (reason, second) in enumerate(rows)])
SHARES = st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0])
BUDGETS = st.builds(Budget, st.integers(0, 5), SHARES, SHARES)
CODES = st.sampled_from(["XID79", "DISK_FULL"])


@settings(max_examples=300, deadline=None)
@given(NODES, BUDGETS, st.randoms(use_true_random=False))
def test_after_the_withdrawals_exactly_the_budget_is_out(
    table: list[SlurmNode], budget: Budget, random: object
) -> None:
    shuffled = list(table)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    leaving = withdrawals(table, budget)
    # Every agent computes the same result, in whatever order Slurm printed the table.
    assert withdrawals(shuffled, budget) == leaving
    out = {row.name for row in table if is_charged(row)}
    assert set(leaving) <= out
    by_users = {row.name for row in table if is_by_users(row)}
    users_most = allowed_by_users(budget, len(table))
    fit = len(out - by_users) + min(len(by_users), users_most)
    assert len(out - set(leaving)) == min(fit, allowed(budget, len(table)))
    assert len(by_users - set(leaving)) <= users_most


@settings(max_examples=300, deadline=None)
@given(NODES, BUDGETS, st.lists(st.tuples(st.integers(0, 24), CODES), max_size=25))
def test_agents_that_ask_one_after_the_other_never_exceed_it(
    table: list[SlurmNode], budget: Budget, asking: list[tuple[int, str]]
) -> None:
    most = max(allowed(budget, len(table)), sum(map(is_charged, table)))
    users_most = max(allowed_by_users(budget, len(table)), sum(map(is_by_users, table)))
    for number, code in asking:
        free = number < len(table) and not table[number].drained_flag
        if free and admit(table[number].name, table, budget, code).admitted:
            table[number] = node(number, OURS if code == "XID79" else FULL)
        assert sum(map(is_charged, table)) <= most
        assert sum(map(is_by_users, table)) <= users_most


@settings(max_examples=200, deadline=None)
@given(NODES, BUDGETS, st.lists(st.integers(0, 24), max_size=40))
def test_users_never_take_what_is_kept_for_hardware(
    table: list[SlurmNode], budget: Budget, asking: list[int]
) -> None:
    """Whatever users cause, on any node: the rest of the budget remains for hardware."""
    table = [row if row.reason != FULL else node(i) for i, row in enumerate(table)]
    hardware = sum(map(is_charged, table))
    for number in asking:
        free = number < len(table) and not table[number].drained_flag
        if free and admit(table[number].name, table, budget, "DISK_FULL").admitted:
            table[number] = node(number, FULL)
    kept = allowed(budget, len(table)) - allowed_by_users(budget, len(table))
    free_nodes = [row.name for row in table if not row.drained_flag]
    if hardware < kept and free_nodes:
        assert admit(free_nodes[0], table, budget, "XID79").admitted


@settings(max_examples=200, deadline=None)
@given(NODES, BUDGETS)
def test_agents_that_all_drain_at_once_settle_within_it(
    table: list[SlurmNode], budget: Budget
) -> None:
    """Each agent was within the budget, all drained in the same second, and each counts again."""
    drained = [
        row if row.drained_flag else node(i, (OURS, FULL)[i % 2], 9) for i, row in enumerate(table)
    ]
    leaving = set(withdrawals(drained, budget))
    settled = [node(i) if row.name in leaving else row for i, row in enumerate(drained)]
    assert withdrawals(settled, budget) == ()
    humans = [row.reason for row in table if row.reason in (HUMAN, CORDON)]
    assert [row.reason for row in settled if row.reason in (HUMAN, CORDON)] == humans


# --- a count that is proven to hold

LARGE = Budget(max_share=0.5)  # of 400 nodes: 200


def counted(out: int, full: int = 0) -> Count:
    table = [node(i, OURS if i < out else FULL if i < out + full else "") for i in range(400)]
    return Count.of(table, changes=1000, since=7)


def test_a_count_is_of_the_nodes_that_holdfast_took_out() -> None:
    found = counted(3, 2)
    assert (found.total, found.out, found.by_users) == (400, 5, 2)


@pytest.mark.parametrize(
    ("out", "later", "code", "admitted"),
    [
        (0, 0, "XID79", True),
        (99, 0, "XID79", True),
        (100, 0, "XID79", False),
        (0, 99, "XID79", True),
        (0, 100, "XID79", False),
        (50, 50, "XID79", False),
        (0, 0, "DISK_FULL", False),  # the users' part is 100
    ],
)
def test_few_changes_since_the_last_count_prove_that_the_budget_has_room(
    out: int, later: int, code: str, admitted: bool
) -> None:
    found = counted(out).admits(1000 + later, 7, LARGE, code)
    assert (found is not None) == admitted
    assert found is None or found.admitted


def test_a_slurmctld_that_counts_from_the_start_proves_nothing() -> None:
    assert counted(0).admits(1000, 8, LARGE, "XID79") is None
    assert counted(0).admits(999, 7, LARGE, "XID79") is None


@given(st.integers(0, 250), st.integers(0, 250), st.sampled_from(["XID79", "DISK_FULL"]))
def test_what_is_proven_is_what_a_count_would_say(out: int, later: int, code: str) -> None:
    """Each change since then may have taken a node out."""
    proof = counted(out).admits(1000 + later, 7, LARGE, code)
    now = [node(i, OURS if i < out else FULL if i < out + later else "") for i in range(400)]
    if proof is not None:
        assert admit(SlurmName("worker-399"), now, LARGE, code).admitted


def test_only_a_large_budget_can_be_proven_to_have_room() -> None:
    assert counted(0).may_prove(LARGE)
    assert not counted(0).may_prove(Budget(max_nodes=SPARE, max_share=0))


def test_the_newest_count_is_kept() -> None:
    old, new = counted(1), replace(counted(2), changes=1001)
    next_day = replace(counted(3), since=8, changes=0)
    assert newest(old, new) == newest(new, old) == new
    assert newest(None, new) == new
    assert newest(new, next_day) == next_day
    assert newest(None, None) is None
