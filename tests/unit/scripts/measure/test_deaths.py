"""What counts as the right action after a death, and the catalogue of deaths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measure.__main__ import main
from measure.deaths.catalogue import DEATHS, named
from measure.deaths.death import Death, Expect, Where
from measure.deaths.decision_table import ROWS
from measure.deaths.job import is_expedited
from measure.deaths.verdict import Seen, ends, problems

Event = Mapping[str, Any]
E2E = Path(__file__).parents[3] / "e2e"

REQUEUED: list[Event] = [
    {"t": 1.0, "event": "attempt", "attempt": 1, "restarts": 0, "nodes": "worker-[0,2]"},
    {"t": 1.1, "event": "step_start", "attempt": 1},
    {"t": 2.0, "event": "step_end", "attempt": 1, "exit_code": 1, "terminated": False},
    {"t": 3.0, "event": "evidence", "attempt": 1, "faults": [{"node": "worker-2"}]},
    {"t": 3.1, "event": "decision", "attempt": 1, "action": "requeue", "why": "bad node worker-2"},
    {"t": 4.0, "event": "attempt", "attempt": 2, "restarts": 1, "nodes": "worker-[0-1]"},
    {"t": 4.1, "event": "checkpoint", "attempt": 2, "chosen": {"path": "/c/5", "step": 5}},
    {"t": 4.2, "event": "step_start", "attempt": 2},
    {"t": 5.0, "event": "step_end", "attempt": 2, "exit_code": 0, "terminated": False},
    {"t": 5.1, "event": "finish", "attempt": 2, "exit_code": 0, "succeeded": True},
]
SEEN = Seen(
    events=REQUEUED,
    state="COMPLETED",
    victim="worker-2",
    first_nodes=("worker-0", "worker-2"),
    last_nodes=("worker-0", "worker-1"),
    excluded=("worker-2", "worker-3"),
    asked=("worker-3",),
)
RIGHT = Expect(
    ends=("requeue", "done"), avoids=True, keeps=True, because="bad node", resumes=5, charged=0
)


def test_the_right_action() -> None:
    assert problems(SEEN, RIGHT) == []


def test_where_it_depends_on_the_moment_either_end_is_right() -> None:
    expect = replace(RIGHT, ends=("requeue", "others", "done"))
    assert problems(SEEN, expect) != []
    assert problems(SEEN, replace(expect, or_ends=("requeue", "done"))) == []


@pytest.mark.parametrize(
    ("seen", "expect", "problem"),
    [
        (replace(SEEN, state="FAILED"), RIGHT, "state: FAILED, expected COMPLETED"),
        (SEEN, replace(RIGHT, ends=("restart", "done")), "attempts: requeue, done, expected rest"),
        (SEEN, replace(RIGHT, charged=1), "charged attempts: 0, expected 1"),
        (replace(SEEN, last_nodes=("worker-2",)), RIGHT, "the last run used worker-2 again"),
        (SEEN, replace(RIGHT, avoids_all=True), "the last run used worker-0 again"),
        (replace(SEEN, excluded=("worker-2",)), RIGHT, "its owner asked for worker-3"),
        (SEEN, replace(RIGHT, because="its output"), "expected 'its output'"),
        (SEEN, replace(RIGHT, resumes=10), "resumed from step: 5, expected 10"),
        (SEEN, replace(RIGHT, tests=True), "tests in pairs: 0, expected 1"),
    ],
)
def test_each_difference_is_a_problem(seen: Seen, expect: Expect, problem: str) -> None:
    (found,) = problems(seen, expect)
    assert problem in found


def test_how_attempts_end() -> None:
    attempt: Event = {"event": "attempt", "attempt": 1}
    cases: list[tuple[list[Event], str]] = [
        ([], "lost"),
        ([{"event": "terminated"}], "others"),
        ([{"event": "finish", "cancelled": True}], "others"),
        ([{"event": "finish", "succeeded": True}], "done"),
        ([{"event": "finish", "exit_code": 0}], "unclear"),
        ([{"event": "decision", "action": "hold"}], "hold"),
    ]
    for events, end in cases:
        assert ends([attempt, *events]) == (end,)
    assert ends([attempt, attempt]) == ("lost", "lost")


def test_an_outage_and_an_end_by_others_are_not_charged() -> None:
    failed: list[Event] = [
        {"event": "attempt", "attempt": 1},
        {"event": "step_start"},
        {"event": "step_end", "exit_code": 1, "terminated": False},
        {"event": "evidence", "faults": [], "kind": "unknown"},
        {"event": "decision", "action": "restart", "why": ""},
    ]
    outage = [*failed[:3], {"event": "evidence", "faults": [], "kind": "outage"}, failed[4]]
    ended = [*failed[:2], {"event": "step_end", "exit_code": 1, "terminated": True}, *failed[3:]]
    for events, charged in ((failed, 1), (outage, 0), (ended, 0)):
        seen = replace(SEEN, events=events)
        assert problems(seen, Expect(ends=("restart",), charged=charged)) == []


def test_the_catalogue() -> None:
    names = [death.name for death in DEATHS]
    assert len(names) == len(set(names)) >= 40
    for death in DEATHS:
        assert death.rank, death.name
        assert "|" not in death.how + death.then, "a cell of a table"
        alone = death.where is Where.ALONE
        many = death.nodes > 2 or death.expect.avoids_all
        assert death.act or many or not alone, death.name


def test_deaths_by_their_names() -> None:
    assert [death.name for death in named(["hang", "exit-1"])] == ["hang", "exit-1"]
    with pytest.raises(ValueError, match="unknown death: exit-2"):
        named(["exit-1", "exit-2"])


@pytest.mark.parametrize(
    "argv", [["drain", "--only", "hang"], ["deaths", "--page", "--only", "hang"]]
)
def test_only_some_deaths_are_no_part_of_a_page(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(argv)
    assert "--only is for deaths alone, without --page" in capsys.readouterr().err


def test_each_row_of_the_decision_table_is_checked_on_real_slurm() -> None:
    assert [row.number for row in ROWS] == list(range(1, 24))
    names = {death.name for death in DEATHS}
    for row in ROWS:
        assert row.deaths, row.number
        assert set(row.deaths) <= names, row.number
        for test in row.tests:
            path, _, function = test.partition("::")
            assert f"def {function}(" in (E2E / path).read_text(), test


def test_only_deaths_of_nodes_use_expedited_requeue() -> None:
    fault = next(death for death in DEATHS if death.name == "xid-79")
    named = next(death for death in DEATHS if death.name == "ecc-in-output")

    def with_it(death: Death, *release: int) -> bool:
        return is_expedited(death, release)

    assert with_it(fault, 26, 5)
    assert not with_it(fault, 24, 11)
    assert not with_it(named, 26, 5), "the job could not exclude a node that stays in service"
    assert not with_it(replace(fault, options=("--no-requeue",)), 26, 5)
