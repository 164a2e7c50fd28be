"""The runs on a node, their baselines and their ends."""

from __future__ import annotations

from slurm_hooks.agent.job_runs import counter_deltas
from slurm_hooks.agent.job_runs import runs as run_list
from slurm_hooks.agent.job_runs.runs import MAX_RUNS, Runs
from slurm_hooks.facts import PortFacts
from tests.unit.slurm_hooks.agent.job_runs.builders import begin, facts, finish, note, run_of

EMPTY = Runs()


def counts(known: Runs, job: int = 7, restarts: int = 0) -> dict[str, int]:
    found = counter_deltas.counts(run_of(known, job, restarts).deltas)
    return {f"{watched.name}|{counted.subject}": count for watched, counted, count in found}


def test_only_errors_during_the_job_are_counted() -> None:
    known = begin(EMPTY)
    known = run_list.saw(known, facts(uncorrected=5), 101.0, 1.0)
    known = run_list.saw(known, facts(uncorrected=5), 110.0, 2.0)
    assert counts(known) == {}
    known = run_list.saw(known, facts(uncorrected=8), 120.0, 3.0)
    assert counts(known) == {"ecc_uncorrected|GPU-0": 3, "ecc_uncorrected|GPU-1": 3}


def test_only_the_jobs_own_gpus_count() -> None:
    known = begin(EMPTY, gpus=frozenset({1}))
    known = run_list.saw(known, facts(uncorrected=0), 101.0, 1.0)
    known = run_list.saw(known, facts(uncorrected=2), 120.0, 2.0)
    assert counts(known) == {"ecc_uncorrected|GPU-1": 2}


def test_gpu_errors_are_not_attributed_to_a_job_without_gpus() -> None:
    known = begin(EMPTY, gpus=None)
    known = run_list.saw(known, facts(uncorrected=0), 101.0, 1.0)
    known = run_list.saw(known, facts(uncorrected=2), 120.0, 2.0)
    assert counts(known) == {}


def test_a_reset_during_the_job_loses_no_counts() -> None:
    known = begin(EMPTY, gpus=frozenset({0}))
    for began_s, value in ((101.0, 10), (110.0, 13), (120.0, 1), (130.0, 2)):
        known = run_list.saw(known, facts(1, uncorrected=value), began_s, began_s)
    assert counts(known) == {"ecc_uncorrected|GPU-0": 3 + 2}
    (only,) = (one for one in run_of(known).deltas.values() if one.name == "ecc_uncorrected")
    assert only.resets == 1


def test_a_gpu_that_is_replaced_during_the_job_inherits_nothing() -> None:
    known = begin(EMPTY, gpus=frozenset({0}))
    known = run_list.saw(known, facts(1, uncorrected=0), 101.0, 1.0)
    other = facts(2, uncorrected=9)
    known = run_list.saw(known, other, 120.0, 2.0)
    assert set(counts(known)) == {"ecc_uncorrected|GPU-0"}


def port(downs: int | None, **counters: int) -> tuple[PortFacts, ...]:
    return (
        PortFacts(device="mlx5_0", port=1, state="ACTIVE", link_downed=downs, counters=counters),
    )


def test_a_link_that_went_down_counts_for_every_job_of_the_node() -> None:
    known = begin(begin(EMPTY, gpus=frozenset({0})), job=8, gpus=frozenset({1}))
    known = run_list.saw(known, facts(ports=port(3)), 101.0, 1.0)
    known = run_list.saw(known, facts(ports=port(4)), 120.0, 2.0)
    assert counts(known) == counts(known, 8) == {"link_downed|mlx5_0/1": 1}


def test_a_saturated_counter_is_unknown() -> None:
    known = begin(EMPTY)
    known = run_list.saw(known, facts(ports=port(254)), 101.0, 1.0)
    known = run_list.saw(known, facts(ports=port(255)), 120.0, 2.0)
    assert counts(known) == {}
    assert "link_downed of mlx5_0/1" in counter_deltas.unknown(run_of(known).deltas)


def test_overlapping_jobs_each_have_their_own_baseline() -> None:
    known = begin(EMPTY, gpus=frozenset({0}))
    known = run_list.saw(known, facts(uncorrected=0), 101.0, 1.0)
    known = run_list.saw(known, facts(uncorrected=4), 110.0, 2.0)
    known = begin(known, job=8, at_s=115.0, gpus=frozenset({0, 1}))
    known = run_list.saw(known, facts(uncorrected=4), 116.0, 3.0)
    known = run_list.saw(known, facts(uncorrected=5), 120.0, 4.0)
    assert counts(known)["ecc_uncorrected|GPU-0"] == 5
    assert counts(known, 8)["ecc_uncorrected|GPU-0"] == 1


def test_the_newest_facts_before_the_start_are_the_baseline() -> None:
    known = begin(EMPTY, at_s=100.0)
    run = run_list.take_baseline(run_of(known), (), facts(uncorrected=1), 95.0, 1.0)
    known = run_list.saw(known.with_run(run), facts(uncorrected=3), 101.0, 2.0)
    assert counts(known)["ecc_uncorrected|GPU-0"] == 2


def test_facts_from_before_another_jobs_end_are_no_baseline() -> None:
    """The last errors of the earlier job must not be attributed to this one."""
    known = finish(begin(EMPTY, gpus=frozenset({0})), at_s=150.0)
    known = begin(known, job=8, at_s=151.0, gpus=frozenset({0}))
    others = known.others(run_of(known, 8))
    stale = run_list.take_baseline(run_of(known, 8), others, facts(uncorrected=1), 149.0, 1.0)
    assert stale.baseline_s is None
    assert run_list.waiting(known, 149.0)
    fresh = run_list.take_baseline(run_of(known, 8), others, facts(uncorrected=1), 150.5, 1.0)
    assert fresh.baseline_s == 150.5


def test_another_jobs_end_on_other_gpus_does_not_matter() -> None:
    known = finish(begin(EMPTY, gpus=frozenset({0})), at_s=150.0)
    known = begin(known, job=8, at_s=151.0, gpus=frozenset({1}))
    run = run_list.take_baseline(
        run_of(known, 8), known.others(run_of(known, 8)), facts(uncorrected=1), 149.0, 1.0
    )
    assert run.baseline_s == 149.0


def test_gpus_that_do_not_answer_are_no_baseline() -> None:
    known = begin(EMPTY)
    known = run_list.saw(known, facts(0), 101.0, 1.0)
    assert run_of(known).baseline_s is None
    known = run_list.saw(known, facts(uncorrected=7), 111.0, 2.0)
    assert run_of(known).baseline_s == 111.0


def test_a_pass_that_began_before_the_end_does_not_judge_it() -> None:
    known = finish(begin(EMPTY), at_s=200.0)
    assert run_list.due(known, 199.9) == ()
    assert [run.key for run in run_list.due(known, 200.0)] == [(7, 0)]


def test_a_job_shorter_than_a_pass_has_no_baseline() -> None:
    known = finish(begin(EMPTY), at_s=100.5)
    known = run_list.saw(known, facts(uncorrected=9), 101.0, 1.0)
    assert run_of(known).baseline_s is None
    assert run_of(known).deltas == {}


def test_a_requeued_job_is_another_run() -> None:
    known = finish(begin(EMPTY), at_s=200.0)
    known = begin(known, restarts=1, at_s=210.0)
    assert set(known.runs) == {(7, 0), (7, 1)}
    assert run_of(known).ended_s == 200.0
    assert run_of(known, 7, 1).ended_s is None


def test_a_later_run_ends_an_earlier_one_without_an_epilog() -> None:
    known = begin(begin(EMPTY), restarts=2, at_s=300.0)
    assert run_of(known).ended_s == 300.0


def test_the_same_note_twice_changes_nothing() -> None:
    known = begin(EMPTY)
    assert begin(known, at_s=999.0) is known
    over = finish(known)
    assert run_of(finish(over, at_s=999.0)).ended_s == 200.0


def test_an_end_without_a_start_is_reported_without_a_judgement() -> None:
    known = finish(EMPTY)
    assert run_of(known).no_judgement == "its prolog left no note"
    known = run_list.saw(known, facts(uncorrected=9), 201.0, 1.0)
    assert run_of(known).deltas == {}


def test_a_lost_baseline_is_no_judgement() -> None:
    known = run_list.started(EMPTY, note("start"), "its baseline was lost")
    known = run_list.saw(known, facts(uncorrected=1), 101.0, 1.0)
    known = run_list.saw(known, facts(uncorrected=9), 120.0, 2.0)
    assert counts(known) == {}
    assert not run_list.waiting(known, 120.0)


def test_runs_that_never_end_do_not_pile_up() -> None:
    known = EMPTY
    for job in range(1, MAX_RUNS + 50):
        known = begin(known, job=job)
    assert len(known.runs) == MAX_RUNS
    assert (MAX_RUNS + 49, 0) in known.runs


def test_one_users_runs_do_not_displace_another_users() -> None:
    known = begin(EMPTY, uid=3000)
    for job in range(100, 100 + 3 * MAX_RUNS):
        known = begin(known, job=job)
    assert len(known.runs) == MAX_RUNS
    assert (7, 0) in known.runs


def test_a_requeued_runs_epilog_already_has_the_next_runs_count() -> None:
    """Seen on 24.11.5: prolog with 0, requeue, epilog with 1, prolog with 1, epilog with 1."""
    known = finish(begin(EMPTY), restarts=1, at_s=200.0)
    assert [(run.key, run.ended_s) for run in known.runs.values()] == [((7, 0), 200.0)]
    known = begin(known, restarts=1, at_s=201.0)
    known = finish(known, restarts=1, at_s=300.0)
    assert [(run.key, run.ended_s) for run in known.runs.values()] == [
        ((7, 0), 200.0),
        ((7, 1), 300.0),
    ]


def test_an_epilog_from_before_a_later_start_ends_the_earlier_run() -> None:
    """An agent that was not running reads both notes at once."""
    known = begin(begin(EMPTY), restarts=1, at_s=201.0)
    late = finish(known, restarts=1, at_s=200.0)
    assert run_of(late).ended_s == 201.0
    assert run_of(late, 7, 1).ended_s is None


def test_a_lost_step_belongs_to_the_jobs_run_that_is_here_and_counts_once() -> None:
    known = begin(finish(begin(EMPTY)), restarts=1, at_s=300.0)
    run = run_list.lost_step(known, 7, "0", 320.0)
    assert run is not None
    assert run.key == (7, 1)
    assert run.lost_steps == (run_list.LostStep(step="0", at_s=320.0),)
    known = known.with_run(run)
    assert run_list.lost_step(known, 7, "0", 330.0) is None
    again = run_list.lost_step(known, 7, "1", 330.0)
    assert again is not None
    assert [lost.step for lost in again.lost_steps] == ["0", "1"]


def test_a_lost_step_of_a_job_that_is_not_here_is_nobodys() -> None:
    assert run_list.lost_step(begin(EMPTY), 8, "0", 320.0) is None
    assert run_list.lost_step(finish(begin(EMPTY)), 7, "0", 320.0) is None


def test_the_lost_steps_of_a_run_are_limited() -> None:
    known = begin(EMPTY)
    for step in range(run_list.MAX_LOST_STEPS):
        run = run_list.lost_step(known, 7, str(step), 320.0)
        assert run is not None
        known = known.with_run(run)
    assert run_list.lost_step(known, 7, "99", 320.0) is None
