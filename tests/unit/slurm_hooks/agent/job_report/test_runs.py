"""The runs on a node, their baselines and their ends."""

from __future__ import annotations

from slurm_hooks.agent.job_report import counter_deltas
from slurm_hooks.agent.job_report import runs as books
from slurm_hooks.agent.job_report.runs import MAX_RUNS, Runs
from slurm_hooks.facts import PortFacts
from tests.unit.slurm_hooks.agent.job_report.builders import begin, facts, finish, note, run_of

EMPTY = Runs()


def counts(ledger: Runs, job: int = 7, restarts: int = 0) -> dict[str, int]:
    found = counter_deltas.counts(run_of(ledger, job, restarts).deltas)
    return {f"{watched.name}|{counted.subject}": count for watched, counted, count in found}


def test_only_errors_during_the_job_are_counted() -> None:
    book = begin(EMPTY)
    book = books.saw(book, facts(uncorrected=5), 101.0, 1.0)
    book = books.saw(book, facts(uncorrected=5), 110.0, 2.0)
    assert counts(book) == {}
    book = books.saw(book, facts(uncorrected=8), 120.0, 3.0)
    assert counts(book) == {"ecc_uncorrected|GPU-0": 3, "ecc_uncorrected|GPU-1": 3}


def test_only_the_jobs_own_gpus_count() -> None:
    book = begin(EMPTY, gpus=frozenset({1}))
    book = books.saw(book, facts(uncorrected=0), 101.0, 1.0)
    book = books.saw(book, facts(uncorrected=2), 120.0, 2.0)
    assert counts(book) == {"ecc_uncorrected|GPU-1": 2}


def test_gpu_errors_are_not_attributed_to_a_job_without_gpus() -> None:
    book = begin(EMPTY, gpus=None)
    book = books.saw(book, facts(uncorrected=0), 101.0, 1.0)
    book = books.saw(book, facts(uncorrected=2), 120.0, 2.0)
    assert counts(book) == {}


def test_a_reset_during_the_job_loses_no_counts() -> None:
    book = begin(EMPTY, gpus=frozenset({0}))
    for began_s, value in ((101.0, 10), (110.0, 13), (120.0, 1), (130.0, 2)):
        book = books.saw(book, facts(1, uncorrected=value), began_s, began_s)
    assert counts(book) == {"ecc_uncorrected|GPU-0": 3 + 2}
    (only,) = (one for one in run_of(book).deltas.values() if one.name == "ecc_uncorrected")
    assert only.resets == 1


def test_a_gpu_that_is_replaced_during_the_job_inherits_nothing() -> None:
    book = begin(EMPTY, gpus=frozenset({0}))
    book = books.saw(book, facts(1, uncorrected=0), 101.0, 1.0)
    other = facts(2, uncorrected=9)
    book = books.saw(book, other, 120.0, 2.0)
    assert set(counts(book)) == {"ecc_uncorrected|GPU-0"}


def port(downs: int | None, **counters: int) -> tuple[PortFacts, ...]:
    return (
        PortFacts(device="mlx5_0", port=1, state="ACTIVE", link_downed=downs, counters=counters),
    )


def test_a_link_that_went_down_counts_for_every_job_of_the_node() -> None:
    book = begin(begin(EMPTY, gpus=frozenset({0})), job=8, gpus=frozenset({1}))
    book = books.saw(book, facts(ports=port(3)), 101.0, 1.0)
    book = books.saw(book, facts(ports=port(4)), 120.0, 2.0)
    assert counts(book) == counts(book, 8) == {"link_downed|mlx5_0/1": 1}


def test_a_saturated_counter_is_unknown() -> None:
    book = begin(EMPTY)
    book = books.saw(book, facts(ports=port(254)), 101.0, 1.0)
    book = books.saw(book, facts(ports=port(255)), 120.0, 2.0)
    assert counts(book) == {}
    assert "link_downed of mlx5_0/1" in counter_deltas.unknown(run_of(book).deltas)


def test_overlapping_jobs_each_have_their_own_baseline() -> None:
    book = begin(EMPTY, gpus=frozenset({0}))
    book = books.saw(book, facts(uncorrected=0), 101.0, 1.0)
    book = books.saw(book, facts(uncorrected=4), 110.0, 2.0)
    book = begin(book, job=8, at_s=115.0, gpus=frozenset({0, 1}))
    book = books.saw(book, facts(uncorrected=4), 116.0, 3.0)
    book = books.saw(book, facts(uncorrected=5), 120.0, 4.0)
    assert counts(book)["ecc_uncorrected|GPU-0"] == 5
    assert counts(book, 8)["ecc_uncorrected|GPU-0"] == 1


def test_the_newest_facts_before_the_start_are_the_baseline() -> None:
    book = begin(EMPTY, at_s=100.0)
    run = books.take_baseline(run_of(book), (), facts(uncorrected=1), 95.0, 1.0)
    book = books.saw(book.with_run(run), facts(uncorrected=3), 101.0, 2.0)
    assert counts(book)["ecc_uncorrected|GPU-0"] == 2


def test_facts_from_before_another_jobs_end_are_no_baseline() -> None:
    """The last errors of the earlier job must not be attributed to this one."""
    book = finish(begin(EMPTY, gpus=frozenset({0})), at_s=150.0)
    book = begin(book, job=8, at_s=151.0, gpus=frozenset({0}))
    others = book.others(run_of(book, 8))
    stale = books.take_baseline(run_of(book, 8), others, facts(uncorrected=1), 149.0, 1.0)
    assert stale.baseline_s is None
    assert books.waiting(book, 149.0)
    fresh = books.take_baseline(run_of(book, 8), others, facts(uncorrected=1), 150.5, 1.0)
    assert fresh.baseline_s == 150.5


def test_another_jobs_end_on_other_gpus_does_not_matter() -> None:
    book = finish(begin(EMPTY, gpus=frozenset({0})), at_s=150.0)
    book = begin(book, job=8, at_s=151.0, gpus=frozenset({1}))
    run = books.take_baseline(
        run_of(book, 8), book.others(run_of(book, 8)), facts(uncorrected=1), 149.0, 1.0
    )
    assert run.baseline_s == 149.0


def test_gpus_that_do_not_answer_are_no_baseline() -> None:
    book = begin(EMPTY)
    book = books.saw(book, facts(0), 101.0, 1.0)
    assert run_of(book).baseline_s is None
    book = books.saw(book, facts(uncorrected=7), 111.0, 2.0)
    assert run_of(book).baseline_s == 111.0


def test_a_pass_that_began_before_the_end_does_not_judge_it() -> None:
    book = finish(begin(EMPTY), at_s=200.0)
    assert books.due(book, 199.9) == ()
    assert [run.key for run in books.due(book, 200.0)] == [(7, 0)]


def test_a_job_shorter_than_a_pass_has_no_baseline() -> None:
    book = finish(begin(EMPTY), at_s=100.5)
    book = books.saw(book, facts(uncorrected=9), 101.0, 1.0)
    assert run_of(book).baseline_s is None
    assert run_of(book).deltas == {}


def test_a_requeued_job_is_another_run() -> None:
    book = finish(begin(EMPTY), at_s=200.0)
    book = begin(book, restarts=1, at_s=210.0)
    assert set(book.runs) == {(7, 0), (7, 1)}
    assert run_of(book).ended_s == 200.0
    assert run_of(book, 7, 1).ended_s is None


def test_a_later_run_ends_an_earlier_one_without_an_epilog() -> None:
    book = begin(begin(EMPTY), restarts=2, at_s=300.0)
    assert run_of(book).ended_s == 300.0


def test_the_same_note_twice_changes_nothing() -> None:
    book = begin(EMPTY)
    assert begin(book, at_s=999.0) is book
    over = finish(book)
    assert run_of(finish(over, at_s=999.0)).ended_s == 200.0


def test_an_end_without_a_start_is_reported_without_a_judgement() -> None:
    book = finish(EMPTY)
    assert run_of(book).no_judgement == "its prolog left no note"
    book = books.saw(book, facts(uncorrected=9), 201.0, 1.0)
    assert run_of(book).deltas == {}


def test_a_lost_baseline_is_no_judgement() -> None:
    book = books.started(EMPTY, note("start"), "its baseline was lost")
    book = books.saw(book, facts(uncorrected=1), 101.0, 1.0)
    book = books.saw(book, facts(uncorrected=9), 120.0, 2.0)
    assert counts(book) == {}
    assert not books.waiting(book, 120.0)


def test_runs_that_never_end_do_not_pile_up() -> None:
    book = EMPTY
    for job in range(1, MAX_RUNS + 50):
        book = begin(book, job=job)
    assert len(book.runs) == MAX_RUNS
    assert (MAX_RUNS + 49, 0) in book.runs


def test_one_users_runs_do_not_displace_another_users() -> None:
    book = begin(EMPTY, uid=3000)
    for job in range(100, 100 + 3 * MAX_RUNS):
        book = begin(book, job=job)
    assert len(book.runs) == MAX_RUNS
    assert (7, 0) in book.runs


def test_a_requeued_runs_epilog_already_has_the_next_runs_count() -> None:
    """Seen on 24.11.5: prolog with 0, requeue, epilog with 1, prolog with 1, epilog with 1."""
    book = finish(begin(EMPTY), restarts=1, at_s=200.0)
    assert [(run.key, run.ended_s) for run in book.runs.values()] == [((7, 0), 200.0)]
    book = begin(book, restarts=1, at_s=201.0)
    book = finish(book, restarts=1, at_s=300.0)
    assert [(run.key, run.ended_s) for run in book.runs.values()] == [
        ((7, 0), 200.0),
        ((7, 1), 300.0),
    ]


def test_an_epilog_from_before_a_later_start_ends_the_earlier_run() -> None:
    """An agent that was not running reads both notes at once."""
    book = begin(begin(EMPTY), restarts=1, at_s=201.0)
    late = finish(book, restarts=1, at_s=200.0)
    assert run_of(late).ended_s == 201.0
    assert run_of(late, 7, 1).ended_s is None
