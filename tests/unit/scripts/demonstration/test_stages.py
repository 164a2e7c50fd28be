"""How the demo evaluates its observations."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from demonstration.ettr import ettr
from demonstration.observe import NotSeenError, json_lines, until
from demonstration.output.dot_positions import spread
from demonstration.stages import CATALOGUE, Seen, missing, table


def step(t: float, number: int, attempt: int = 0, took_s: float = 1.0) -> dict[str, Any]:
    return {"event": "step", "t": t, "step": number, "attempt": attempt, "took_s": took_s}


def seen(key: str, at_s: float) -> Seen:
    return Seen(key=key, at_s=at_s, source="test", evidence="")


def test_a_job_without_a_fault_loses_no_time() -> None:
    events = [*(step(10.0 + n, n) for n in range(1, 11)), {"event": "done", "t": 20.0}]
    figure = ettr(events, submitted_s=0.0)
    assert figure.wall_s == 20.0
    assert figure.productive_s == 10.0
    assert figure.ratio == 0.5
    assert figure.lost_s == pytest.approx(0.0)
    assert figure.redone_steps == 0


def test_a_step_counts_once_and_the_pause_is_lost() -> None:
    """Steps 1 to 4, a pause of 20 s, then 3 to 6: two steps are done twice."""
    events = [
        *(step(float(n), n) for n in range(1, 5)),
        *(step(22.0 + n, n, attempt=1) for n in range(3, 7)),
        {"event": "done", "t": 28.0},
    ]
    figure = ettr(events, submitted_s=0.0)
    assert figure.productive_s == 6.0
    assert figure.redone_steps == 2
    assert figure.lost_s == pytest.approx(28.0 - 6.0)


@pytest.mark.parametrize("events", [[], [step(1.0, 1)], [{"event": "done", "t": 1.0}]])
def test_a_job_that_did_not_finish_has_no_ettr(events: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="did not finish"):
        ettr(events, submitted_s=0.0)


def test_every_stage_that_was_not_observed_is_listed() -> None:
    found = [seen(key, 1.0) for key in CATALOGUE if key not in ("drain", "event")]
    assert missing(found) == [CATALOGUE["drain"], CATALOGUE["event"]]
    assert missing([seen(key, 1.0) for key in CATALOGUE]) == []


def test_the_table_is_sorted_by_time_and_counts_from_the_fault() -> None:
    lines = table([seen("drain", 100.5), seen("fault", 100.0), seen("requeue", 102.0)])
    assert [line.title for line in lines[:3]] == [
        CATALOGUE["fault"],
        CATALOGUE["drain"],
        CATALOGUE["requeue"],
    ]
    assert [line.after_s for line in lines[:3]] == [0.0, 0.5, 2.0]
    assert all(line.evidence == "NOT OBSERVED" for line in lines[3:])
    assert len(lines) == len(CATALOGUE)


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text('{"step": 1}\nnot json\n{"step": 2}\n{"ste')
    assert json_lines(path) == [{"step": 1}, {"step": 2}]
    assert json_lines(tmp_path / "absent") == []


def test_until_returns_the_first_result_or_reports_the_missing_event() -> None:
    answers = iter([None, None, 7])
    assert until(lambda: next(answers), "seven", 1.0, 0.0) == 7
    with pytest.raises(NotSeenError, match=r"a miracle: not within 0\.01 s"):
        until(lambda: None, "a miracle", 0.01, 0.001)


def test_dots_keep_their_distance_and_order() -> None:
    assert spread([0.0, 10.0, 20.0], gap=2.0, least=0.0) == [0.0, 10.0, 20.0]
    assert spread([9.0, 9.0, 9.0], gap=2.0, least=0.0) == [7.0, 9.0, 11.0]
    crowded = spread([0.0, 0.1, 0.2, 0.5, 3.0, 3.1, 20.0], gap=1.0, least=0.0)
    assert crowded == sorted(crowded)
    assert all(b - a >= 1.0 - 1e-9 for a, b in pairwise(crowded))
    assert crowded[-1] == 20.0


def test_no_dot_is_before_the_fault() -> None:
    assert spread([0.0, 0.0, 0.1, 5.0], gap=2.0, least=0.0) == [0.0, 2.0, 4.0, 6.0]
