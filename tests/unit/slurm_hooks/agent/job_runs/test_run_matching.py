"""Attribution of Xids and processes to runs: overlapping, partial, het, array and requeued jobs."""

from __future__ import annotations

import pytest

from slurm_hooks.agent.job_runs.run_matching import MAX_XIDS, attribute, belongs, leftovers
from slurm_hooks.agent.job_runs.runs import Runs
from tests.unit.slurm_hooks.agent.job_runs.builders import (
    ALICE,
    BOB,
    begin,
    finish,
    process,
    run_of,
    xid,
)

EMPTY = Runs()
ONE = begin(EMPTY)
TWO = begin(begin(EMPTY, gpus=frozenset({0})), job=8, gpus=frozenset({1}), uid=BOB)


# --- Xids -----------------------------------------------------------------------------------------


def test_an_xid_is_attributed_by_its_gpu() -> None:
    after, hit = attribute(TWO, xid(gpu=1), None, ())
    assert hit == ((8, 0),)
    (found,) = run_of(after, 8).xids
    assert (found.how, found.sure, found.gpu, found.step) == ("gpu", True, 1, "")


def test_an_xid_on_a_gpu_of_no_job_is_not_attributed() -> None:
    assert attribute(TWO, xid(gpu=5), None, ()) == (TWO, ())


@pytest.mark.parametrize("at_s", [99.0, 200.5])
def test_an_xid_before_or_after_the_run_is_not_attributed(at_s: float) -> None:
    over = finish(ONE)
    assert attribute(over, xid(at_s=at_s), None, ()) == (over, ())


def test_the_process_that_the_kernel_names_decides_between_jobs_that_share_a_gpu() -> None:
    shared = begin(ONE, job=8, uid=BOB)
    after, hit = attribute(shared, xid(), 99, [process(98), process(99, job=8, uid=BOB, step="3")])
    assert hit == ((8, 0),)
    assert (run_of(after, 8).xids[0].how, run_of(after, 8).xids[0].step) == ("pid", "3")
    assert run_of(after, 8).xids[0].pid == 99


def test_jobs_that_cannot_be_distinguished_all_get_the_xid_unconfirmed() -> None:
    shared = begin(ONE, job=8)
    after, hit = attribute(shared, xid(), None, ())
    assert set(hit) == {(7, 0), (8, 0)}
    assert not run_of(after).xids[0].sure
    assert not run_of(after, 8).xids[0].sure


def test_a_pid_of_a_job_with_other_gpus_is_ignored() -> None:
    """The pids in the kernel log may be of another pid namespace than the agent's."""
    _, hit = attribute(TWO, xid(gpu=1), 99, [process(99, job=7)])
    assert hit == ((8, 0),)


def test_without_the_process_the_gpu_decides() -> None:
    after, hit = attribute(TWO, xid(gpu=0), 99, ())
    assert hit == ((7, 0),)
    assert run_of(after).xids[0].pid == 99


def test_the_step_that_uses_the_gpu_is_named() -> None:
    table = [
        process(1, step="0", env={"SLURM_STEP_GPUS": "1"}),
        process(2, step="4", env={"SLURM_STEP_GPUS": "0"}),
        process(3, step=""),
    ]
    after, _ = attribute(ONE, xid(gpu=0), None, table)
    assert run_of(after).xids[0].step == "4"


def test_two_steps_on_one_gpu_are_not_guessed() -> None:
    table = [process(1, step="0"), process(2, step="1")]
    after, _ = attribute(ONE, xid(gpu=0), None, table)
    assert run_of(after).xids[0].step == ""


def test_without_gpus_allocated_by_slurm_the_only_job_gets_the_xid() -> None:
    alone = begin(EMPTY, gpus=None)
    after, hit = attribute(alone, xid(gpu=6), None, ())
    assert hit == ((7, 0),)
    assert run_of(after).xids[0].how == "alone"
    assert attribute(begin(alone, job=8, gpus=None), xid(gpu=6), None, ())[1] == ()


def test_a_cpu_job_among_others_never_gets_a_gpus_xid() -> None:
    known = begin(begin(EMPTY, gpus=None), job=8, gpus=frozenset({1}))
    assert attribute(known, xid(gpu=0), None, ())[1] == ()


def test_an_xid_of_an_unknown_gpu_is_not_attributed() -> None:
    assert attribute(ONE, xid(gpu=None), None, ())[1] == ()


def test_xids_of_the_same_kind_are_counted_and_a_record_read_twice_counts_once() -> None:
    known, _ = attribute(ONE, xid(seq=1), None, ())
    known, _ = attribute(known, xid(seq=2, at_s=160.0), None, ())
    again, hit = attribute(known, xid(seq=2, at_s=160.0), None, ())
    assert (again, hit) == (known, ())
    (found,) = run_of(known).xids
    assert (found.count, found.at_s) == (2, 160.0)


def test_the_number_of_xids_is_limited() -> None:
    known = ONE
    for number in range(3 * MAX_XIDS):
        known, _ = attribute(known, xid(number + 200, seq=number), None, ())
    assert len(run_of(known).xids) == MAX_XIDS


def test_components_of_a_het_job_on_one_node_are_distinguished_by_their_gpus() -> None:
    """All tasks carry the leader's id; seen on 24.11.5."""
    het = begin(EMPTY, job=7, het_job=7, gpus=frozenset({0}))
    het = begin(het, job=8, het_job=7, gpus=frozenset({1, 2}))
    _, hit = attribute(het, xid(gpu=2), 50, [process(50, job=7)])
    assert hit == ((8, 0),)
    _, hit = attribute(het, xid(gpu=0), 50, [process(50, job=7)])
    assert hit == ((7, 0),)


def test_array_tasks_are_separate_jobs() -> None:
    known = begin(begin(EMPTY, job=21, gpus=frozenset({0})), job=22, gpus=frozenset({1}))
    assert attribute(known, xid(gpu=1), None, ())[1] == ((22, 0),)


def test_an_earlier_runs_xid_is_not_attributed_to_the_requeued_run() -> None:
    known = begin(finish(ONE, at_s=200.0), restarts=1, at_s=201.0)
    assert attribute(known, xid(at_s=150.0), None, ())[1] == ((7, 0),)
    assert attribute(known, xid(at_s=250.0), None, ())[1] == ((7, 1),)


# --- processes ------------------------------------------------------------------------------------

OVER = finish(ONE)


def test_a_process_of_the_job_is_left_behind() -> None:
    mine = process()
    assert leftovers(OVER, run_of(OVER), [mine, process(2, job=99)]) == [mine]


def test_another_users_process_is_never_this_jobs() -> None:
    """Any user can put any job id into an environment."""
    assert leftovers(OVER, run_of(OVER), [process(uid=BOB)]) == []


def test_a_process_older_than_the_job_is_not_the_jobs() -> None:
    assert leftovers(OVER, run_of(OVER), [process(start_s=99.0)]) == []


def test_the_cgroup_takes_precedence_over_the_environment() -> None:
    assert leftovers(OVER, run_of(OVER), [process(job=99, by_cgroup=True)]) == []
    old = process(start_s=99.0, by_cgroup=True)
    assert leftovers(OVER, run_of(OVER), [old]) == [old]


def test_a_later_run_of_the_same_job_keeps_its_processes() -> None:
    back = begin(OVER, restarts=1, at_s=210.0)
    old, new = process(1, start_s=150.0), process(2, start_s=220.0, restarts=1)
    assert leftovers(back, run_of(back), [old, new]) == [old]
    unknown = process(3, start_s=220.0, restarts=None)
    assert leftovers(back, run_of(back), [unknown]) == []


def test_a_child_of_a_leftover_has_the_earlier_runs_restart_count() -> None:
    back = begin(OVER, restarts=1, at_s=210.0)
    child = process(4, start_s=230.0, restarts=0)
    assert leftovers(back, run_of(back), [child]) == [child]


def test_a_component_that_still_runs_keeps_every_task_of_the_het_job() -> None:
    het = begin(begin(EMPTY, job=7, het_job=7), job=8, het_job=7, gpus=frozenset({2}))
    half = finish(het, job=8)
    assert leftovers(half, run_of(half, 8), [process(job=7)]) == []
    over = finish(half, job=7)
    assert leftovers(over, run_of(over, 7), [process(job=7)]) == [process(job=7)]
    by_cgroup = process(job=8, by_cgroup=True)
    assert leftovers(half, run_of(half, 8), [by_cgroup]) == [by_cgroup]


def test_the_leaders_tasks_on_a_components_node_are_the_components() -> None:
    """The leader runs elsewhere; here only the component runs, and its tasks carry the leader's id."""
    het = finish(begin(EMPTY, job=8, het_job=7), job=8)
    assert belongs(run_of(het, 8), process(job=7), ())
    assert not belongs(run_of(het, 8), process(job=9), ())


def test_the_user_must_be_the_same() -> None:
    assert belongs(run_of(OVER), process(uid=ALICE), ())
