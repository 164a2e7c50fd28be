"""What an ended run left behind, and which of its processes may be killed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_hooks.agent.job_report import leftovers
from slurm_hooks.agent.job_report.report import Leftover, MemoryLeft
from slurm_hooks.agent.job_runs.processes import Fate
from slurm_hooks.agent.job_runs.runs import Runs
from slurm_hooks.facts import GpuFacts, GpuProcess, NodeFacts
from slurm_hooks.facts.leftovers import LeftoverFacts
from tests.unit.slurm_hooks.agent.job_runs.builders import (
    ALICE,
    begin,
    facts,
    finish,
    process,
    run_of,
)

OVER = finish(begin(Runs()))
RUN = run_of(OVER)
MIB = 1 << 20
LIMIT_BYTES = 104857600


# --- which processes may be killed


def own(pid: int = 4711, **more: object) -> tuple[Leftover, ...]:
    left = Leftover(pid=pid, start=12000)
    return (replace(left, **more),)  # type: ignore[arg-type]


@pytest.mark.parametrize("uid", [0, 1, ALICE - 1, ALICE + 1, 65534])
def test_a_process_of_any_other_user_is_never_killed(uid: int) -> None:
    assert leftovers.to_end(RUN, own(), [process()]) == (process(),)
    assert leftovers.to_end(RUN, own(), [process(uid=uid)]) == ()


@pytest.mark.parametrize("uid", [None, 0])
def test_nothing_is_killed_for_a_job_of_root_or_of_an_unknown_user(uid: int | None) -> None:
    run = replace(RUN, uid=uid)
    assert leftovers.to_end(run, own(), [process(uid=uid), process(uid=0)]) == ()


def test_a_later_process_with_the_same_pid_is_not_killed() -> None:
    later = process(start_s=121.0)
    assert leftovers.to_end(RUN, own(), [later]) == ()
    assert leftovers.to_end(RUN, own(4712), [process()]) == ()
    assert leftovers.to_end(RUN, own(confirmed=False), [process()]) == ()


# --- memory


def node(*processes: tuple[GpuProcess, ...]) -> NodeFacts:
    """A node with the processes of each GPU."""
    gpus = tuple(GpuFacts(index=i, uuid=f"GPU-{i}", processes=p) for i, p in enumerate(processes))
    return replace(facts(), nvml=replace(facts().nvml, gpus=gpus))  # type: ignore[type-var]


def on_gpu(used: int | None, pid: int = 5) -> tuple[GpuProcess, ...]:
    return (GpuProcess(pid=pid, used_bytes=used),)


@pytest.mark.parametrize(
    ("first", "second", "total"),
    [(3, 4, 7), (0, 4, 4), (3, 0, 3), (0, 0, 0), (None, 4, None), (3, None, None)],
)
def test_memory_on_several_gpus_is_added_up_unless_a_part_is_unknown(
    first: int | None, second: int | None, total: int | None
) -> None:
    held = leftovers.holdings(node(on_gpu(first), on_gpu(second)).gpus)
    assert held == {5: ((0, 1), total)}


def test_each_process_holds_its_own_gpus() -> None:
    found = node((*on_gpu(1, 5), *on_gpu(2, 6)), on_gpu(4, 6))
    assert leftovers.holdings(found.gpus) == {5: ((0,), 1), 6: ((0, 1), 6)}


BEFORE = {"GPU-0": 500 * MIB, "GPU-1": 0}
BASED = replace(RUN, memory=BEFORE)
KNOWN = OVER.with_run(BASED)


def memory_left(*after: int | None, runs: Runs = KNOWN) -> tuple[MemoryLeft, ...]:
    gpus = tuple(
        GpuFacts(index=i, uuid=f"GPU-{i}", memory_used_bytes=used) for i, used in enumerate(after)
    )
    now = replace(facts(), nvml=replace(facts().nvml, gpus=gpus))  # type: ignore[type-var]
    return leftovers.memory_left(runs, BASED, now)


@pytest.mark.parametrize(
    ("more", "left"), [(-1, False), (0, False), (LIMIT_BYTES, False), (LIMIT_BYTES + 1, True)]
)
def test_memory_is_left_behind_if_more_than_100_mib_more_are_in_use_than_at_the_start(
    more: int, left: bool
) -> None:
    after = 500 * MIB + more
    found = MemoryLeft(gpu=0, before_bytes=500 * MIB, after_bytes=after)
    assert memory_left(after, 0) == ((found,) if left else ())


def test_memory_of_which_one_value_is_unknown_is_not_reported() -> None:
    assert memory_left(None, None) == ()
    assert memory_left(0, 0, 2 << 30) == (), "this job did not have GPU 2"
    assert leftovers.memory_left(OVER, RUN, facts(memory_used_bytes=2 << 30)) == (), "no baseline"
    unnamed = GpuFacts(index=0, memory_used_bytes=2 << 30)
    now = replace(facts(), nvml=replace(facts().nvml, gpus=(unnamed,)))  # type: ignore[type-var]
    assert leftovers.memory_left(KNOWN, BASED, now) == ()


@pytest.mark.parametrize(
    ("gpus", "ended", "left"),
    [
        (frozenset({0}), False, [1]),
        (frozenset({0, 1}), False, []),
        (None, False, []),
        (frozenset({2}), False, [0, 1]),
        (None, True, [0, 1]),
        (frozenset({0}), True, [0, 1]),
    ],
    ids=[
        "shares a GPU",
        "shares all",
        "may use any GPU",
        "uses another GPU",
        "has ended",
        "has ended on a shared GPU",
    ],
)
def test_memory_is_not_attributed_to_a_job_while_another_may_use_the_gpu(
    gpus: frozenset[int] | None, ended: bool, left: list[int]
) -> None:
    shared = begin(KNOWN, job=8, at_s=150.0, gpus=gpus)
    if ended:
        shared = finish(shared, job=8, at_s=160.0)
    assert [found.gpu for found in memory_left(2 << 30, 2 << 30, runs=shared)] == left
    unknown = leftovers.find_leftovers(shared, BASED, (), node(on_gpu(1), on_gpu(1)))
    assert [one.gpus for one in unknown] == ([tuple(left)] if left else [])


# --- what became of them


def test_an_unknown_process_has_no_start_time() -> None:
    (left,) = leftovers.find_leftovers(OVER, RUN, (), node(on_gpu(7), ()))
    assert (left.pid, left.start, left.gpus, left.used_bytes) == (5, 0, (0,), 7)
    assert not left.confirmed


def test_a_leftover_keeps_the_facts_of_its_process() -> None:
    (left,) = leftovers.find_leftovers(
        OVER, RUN, [process(command="python train.py")], node((), ())
    )
    assert (left.command, left.step, left.confirmed) == ("python train.py", "0", True)
    assert (left.gpus, left.used_bytes) == ((), None)


def test_only_a_process_that_a_scan_does_not_find_again_is_gone() -> None:
    unknown = Leftover(pid=3, start=0, confirmed=False)
    before = (Leftover(pid=1, start=10), Leftover(pid=2, start=20), unknown)
    now = (Leftover(pid=2, start=20), Leftover(pid=1, start=99))
    after = leftovers.settled(before, now)
    assert [(one.pid, one.start, one.fate) for one in after] == [
        (2, 20, "alive"),
        (1, 99, "alive"),
        (1, 10, "gone"),
    ]


def test_only_a_signal_to_this_very_process_decides_its_fate() -> None:
    left = own()
    assert leftovers.with_fates(left, [Fate(pid=4711, start=1, gone=True)]) == left
    assert leftovers.with_fates(left, ()) == left


@pytest.mark.parametrize(
    ("fate", "there", "unkillable"),
    [
        ("alive", True, False),
        ("unkillable", True, True),
        ("ended", False, False),
        ("gone", False, False),
    ],
)
def test_facts_of_the_node_are_the_leftovers_that_are_still_there(
    fate: str, there: bool, unkillable: bool
) -> None:
    left = own(fate=fate, command="c", gpus=(1,), used_bytes=9, state="D", confirmed=False)
    expected = LeftoverFacts(
        pid=4711, job=7, command="c", confirmed=False, unkillable=unkillable, state="D",
        gpus=(1,), used_bytes=9,
    )  # fmt: skip
    assert leftovers.still_there(RUN, left) == ((expected,) if there else ())


def test_a_leftover_shows_the_memory_that_it_holds_now() -> None:
    known = LeftoverFacts(pid=5, job=7, gpus=(0, 1), used_bytes=9)
    assert leftovers.still(known, {5: ((1,), 4)}) == replace(known, gpus=(1,), used_bytes=4)
    assert leftovers.still(known, {}) == replace(known, gpus=(), used_bytes=None)
