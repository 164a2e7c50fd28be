"""When tasks stop, and how long the next attempt waits."""

from __future__ import annotations

import pytest

from holdfast.policy.job import fence
from holdfast.policy.job.fence import Ended, Lease, Order, wait_s


def test_a_lease_runs_out_without_a_proof_and_a_look_at_the_journal_renews_it() -> None:
    lease = Lease(proved_at=100.0)
    assert lease.at(100.0 + fence.LEASE_S).order is Order.GO_ON
    stopped = lease.at(100.1 + fence.LEASE_S)
    assert stopped.order is Order.STOP
    assert stopped.read(120.0, newer=False).at(120.1).order is Order.GO_ON


def test_a_look_counts_from_its_begin_not_from_its_answer() -> None:
    """A look that hung while the next attempt began has not seen it."""
    lease = Lease(proved_at=100.0).read(101.0, newer=False)
    assert lease.at(101.1 + fence.LEASE_S).order is Order.STOP
    assert Lease(proved_at=101.0, stopped=True).read(100.0, newer=False).stopped


def test_slurmctld_extends_a_lease_and_renews_none() -> None:
    lease = Lease(proved_at=100.0).confirmed(104.0)
    assert lease.at(104.0 + fence.LEASE_S).order is Order.GO_ON
    stopped = Lease(proved_at=100.0).at(110.0)
    assert stopped.confirmed(110.0).order is Order.STOP
    late = Lease(proved_at=100.0).confirmed(100.1 + fence.LEASE_S)
    assert late.at(107.0).order is Order.STOP, "it had run out before the question"


def test_a_newer_attempt_ends_it_for_good() -> None:
    lease = Lease(proved_at=100.0).read(101.0, newer=True)
    assert lease.order is Order.END
    assert lease.confirmed(102.0).at(102.0).order is Order.END


@pytest.mark.parametrize(
    ("age_s", "asks", "again_s"), [(1.0, False, fence.POLL_S), (3.0, True, fence.HURRY_S)]
)
def test_slurmctld_is_asked_only_about_a_lease_without_proof(
    age_s: float, asks: bool, again_s: float
) -> None:
    lease = Lease(proved_at=100.0)
    assert lease.asks_slurm(100.0 + age_s) is asks
    assert lease.look_again_s(100.0 + age_s) == again_s


def test_what_is_known_to_have_ended_delays_nothing() -> None:
    assert wait_s(Ended.SEEN) == 0.0
    assert fence.POLL_S < wait_s(Ended.BY_SLURM) < wait_s(Ended.UNKNOWN)
    slowest = fence.LEASE_S + fence.HURRY_S
    assert wait_s(Ended.UNKNOWN) > slowest + 2, "tasks are stopped before the next ones start"
