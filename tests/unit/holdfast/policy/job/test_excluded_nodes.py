"""What the owner of a job excludes stays; what Holdfast added expires."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from holdfast.policy.job.excluded_nodes import Exclusion, exclusion
from holdfast.vocabulary import SlurmName

NOON = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
A, B, C = map(SlurmName, ("worker-0", "worker-1", "worker-2"))
YESTERDAY = NOON - timedelta(hours=25)


def test_a_suspect_is_added_to_the_owners_nodes() -> None:
    change = exclusion({}, [B], ["worker-0"], NOON)
    assert change == Exclusion(add=(B,))
    assert change.applied_to(["worker-0"]) == (A, B)


def test_a_suspect_that_the_owner_excludes_stays_the_owners() -> None:
    assert exclusion({}, [A], ["worker-0"], NOON) == Exclusion()


def test_ours_expires_after_a_day_unless_it_is_suspect_again() -> None:
    ours = {B: YESTERDAY, C: NOON}
    change = exclusion(ours, [], ["worker-0", "worker-1", "worker-2"], NOON)
    assert change == Exclusion(remove=(B,))
    assert change.applied_to(["worker-0", "worker-1", "worker-2"]) == (A, C)
    assert exclusion(ours, [B], ["worker-1"], NOON) == Exclusion(add=(B,))


def test_a_passed_inspection_ends_an_exclusion_that_is_ours_and_older() -> None:
    listed = ["worker-0", "worker-1", "worker-2"]
    ours = {B: NOON - timedelta(hours=2), C: NOON - timedelta(hours=2)}
    passed = {A: NOON, B: NOON - timedelta(hours=1), C: NOON - timedelta(hours=3)}
    assert exclusion(ours, [], listed, NOON, passed) == Exclusion(remove=(B,))
    assert exclusion(ours, [B], listed, NOON, passed) == Exclusion(add=(B,)), "suspect again"


NODES = st.sets(st.sampled_from([A, B, C]))
TIMES = st.integers(0, 48).map(lambda hours: NOON - timedelta(hours=hours))


@given(owner=NODES, ours=st.dictionaries(st.sampled_from([A, B, C]), TIMES), suspects=NODES)
def test_the_owners_nodes_are_in_every_list(
    owner: set[SlurmName], ours: dict[SlurmName, datetime], suspects: set[SlurmName]
) -> None:
    ours = {node: at for node, at in ours.items() if node not in owner}
    listed = owner | set(ours)
    after = set(exclusion(ours, suspects, listed, NOON).applied_to(listed))
    assert owner <= after
    assert suspects <= after
    assert all(NOON - ours[node] < timedelta(hours=24) for node in after - owner - suspects)
