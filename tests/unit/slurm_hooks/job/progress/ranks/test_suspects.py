"""Which nodes a job that hangs waits for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slurm_hooks.job.progress.ranks.report import MARK, Collected, RankReport, done_line, read
from slurm_hooks.job.progress.ranks.suspects import suspected

NODES = tuple(f"worker-{number}" for number in range(4))
ALL = frozenset(NODES)


def rank(number: int, **about: object) -> RankReport:
    waiting = RankReport(
        node=NODES[number % 4],
        rank=number,
        pid=1000 + number,
        name="python3",
        state="S",
        place="futex_wait_queue",
        threads={"futex_wait_queue": 12},
    )
    return replace(waiting, **about)  # type: ignore[arg-type]


def collected(*others: RankReport, count: int = 8, answered: frozenset[str] = ALL) -> Collected:
    changed = {report.rank: report for report in others}
    ranks = tuple(changed.get(number, rank(number)) for number in range(count))
    found = tuple(report for report in ranks if report.node in answered)
    return Collected(ranks=found, answered=answered)


def test_the_few_ranks_that_do_something_else_are_waited_for() -> None:
    found = suspected(collected(rank(6, place="hrtimer_nanosleep")), NODES)
    assert found.nodes == ("worker-2",)
    assert found.why == (
        "rank 6: sleeps in hrtimer_nanosleep, while each of 7 others sleeps in futex_wait_queue"
    )


def test_a_rank_that_does_not_wait_in_nccl_like_the_others() -> None:
    """Ranks in a collective of NCCL keep a core busy."""
    busy = [rank(number, busy=1.0, state="R", place="") for number in range(7)]
    found = suspected(collected(*busy), NODES)
    assert found.nodes == ("worker-3",)
    assert "while each of 7 others is busy" in found.why


def test_many_ranks_that_differ_tell_nothing() -> None:
    differ = [rank(number, place="hrtimer_nanosleep") for number in (1, 2, 3)]
    assert suspected(collected(*differ), NODES).nodes == ()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_ranks_tell_nothing(count: int) -> None:
    assert suspected(collected(rank(0, place="hrtimer_nanosleep"), count=count), NODES).nodes == ()


def test_nothing_is_suspected_when_all_do_the_same_or_nothing_is_known() -> None:
    assert suspected(collected(), NODES).nodes == ()
    assert suspected(Collected(), NODES).nodes == ()


def test_a_thread_that_storage_blocks_counts_before_what_the_main_threads_do() -> None:
    """Its main thread waits for a thread that loads data, as those of the others do."""
    report = rank(5, threads={"futex_wait_queue": 3, "nfs_wait_bit_killable": 1})
    found = suspected(collected(replace(report, blocked=("nfs_wait_bit_killable",))), NODES)
    assert (found.nodes, found.why) == (("worker-1",), "rank 5: blocked in nfs_wait_bit_killable")


def test_storage_that_blocks_all_blames_no_node() -> None:
    stuck = [rank(number, state="D", place="nfs_wait_bit_killable") for number in range(8)]
    assert suspected(collected(*stuck), NODES).nodes == ()


def test_a_node_that_cannot_start_a_program_is_suspected() -> None:
    found = suspected(collected(answered=ALL - {"worker-3"}), NODES)
    assert found.nodes == ("worker-3",)
    assert suspected(collected(answered=frozenset()), NODES).nodes == (), "Slurm did not answer"
    assert suspected(collected(answered=frozenset({"worker-0"})), NODES).nodes == ()


def test_the_flight_recorder_tells_better_than_what_threads_do() -> None:
    pending = [rank(number, pending={"0": 12}) for number in range(8)]
    pending[2] = replace(pending[2], pending={"0": 11})
    pending[7] = replace(pending[7], place="hrtimer_nanosleep")
    assert suspected(collected(*pending), NODES).nodes == ("worker-2",)
    pending[1] = replace(pending[1], pending=None)
    assert suspected(collected(*pending), NODES).nodes == ("worker-3",), "a dump is missing"


def test_reports_are_read_back() -> None:
    reports = collected(rank(1, pending={"0": 3}, blocked=("io_schedule",))).ranks
    lines = [report.line().rstrip("\n") for report in reports]
    lines += [done_line(node).rstrip("\n") for node in NODES]
    assert read(["prolog says hello", *lines], ALL) == Collected(ranks=reports, answered=ALL)


@pytest.mark.parametrize(
    "line",
    [
        MARK,
        MARK + "[]",
        MARK + "7",
        MARK + "{}",
        MARK + '{"node": ["worker-1"], "done": true}',
        MARK + '{"node": "elsewhere", "done": true}',
        MARK + json.dumps({"node": "worker-1", "rank": "x"}),
        MARK + "[" * 3000,
        rank(1).line().replace("futex", "x" * 5000),
        rank(1).line().replace('"threads": {', '"threads": 7, "t": {'),
        rank(1).line().replace('"busy": 0.0', '"busy": "much"'),
    ],
)
def test_a_line_that_is_no_report_is_left_out(line: str) -> None:
    assert read([line], ALL) == Collected()


def test_a_name_cannot_write_to_the_terminal() -> None:
    found = read([rank(1, name="\x1b]0;x\x07").line()], ALL)
    assert found.ranks[0].name == ""
    assert "\x1b" not in found.ranks[0].text()
