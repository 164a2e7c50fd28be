"""The demo's comparison of a run as pods with one without."""

from __future__ import annotations

import json
from pathlib import Path

from demonstration.jobs import Job, Order
from demonstration.observe import Cluster
from demonstration.output.report import Outcome, as_json, comparison_lines
from demonstration.scenario import Scenario
from demonstration.stages import CATALOGUE, Seen
from testbed.box import Box
from testbed.shape import Shape

SHAPE = Shape(name="ended", nodes=4, slurm="24.11", root="/", layers=(), hooks=True, bridge=True)
ENDED = Cluster(Box(folder=Path("/nowhere"), shape=SHAPE, pid=0, started=0))


def run(next_step_s: float) -> Scenario:
    """A whole run; its box has ended, so only what was kept can be read."""
    order = Order(name="holdfast", script="train_holdfast", ranks_per_node=4, steps=60)
    lines = ({"event": "step", "t": 1.0},)
    job = Job(cluster=ENDED, order=order, job_id=7, submitted_s=0.0, kept=lines)
    scenario = Scenario(job=job, victim="worker-1")
    for key in CATALOGUE:
        at_s = 100.0 + {"fault": 0.0, "next_step": next_step_s}.get(key, 1.0)
        scenario.seen[key] = Seen(key=key, at_s=at_s, source="source", evidence="")
    return scenario


def outcome(other: Scenario | None) -> Outcome:
    return Outcome(
        slurm="24.11",
        ranks_per_node=4,
        scenario=run(7.5),
        baseline=None,
        digests={},
        without_pods=other,
    )


def test_both_runs_stand_side_by_side() -> None:
    head, *lines, last = comparison_lines(outcome(run(6.0)))
    assert head.split()[-4:] == ["as", "pods", "without", "pods"]
    assert lines[3].split() == ["first", "new", "training", "step", "7.50", "s", "6.00", "s"]
    assert last == "As pods the next step took 1.25 times as long."


def test_a_missing_stage_of_the_other_run_is_a_problem_and_shown_as_such() -> None:
    other = run(6.0)
    del other.seen["next_step"]
    other.problems.append("first new training step: not within 150 s")
    assert outcome(other).all_problems == other.problems
    rows = comparison_lines(outcome(other))
    assert len(rows) == 6, "no ratio"
    assert rows[4].split()[-3:] == ["7.50", "s", "-"]


def test_pods_that_are_much_slower_are_a_problem() -> None:
    assert outcome(run(5.0)).all_problems == [], "1.5 times as long"
    (problem,) = outcome(run(4.9)).all_problems
    assert problem == "as pods the next step took 1.53 times as long as without; at most 1.50"
    assert as_json(outcome(run(4.9)))["ok"] is False


def test_the_result_has_both_times() -> None:
    found = json.loads(json.dumps(as_json(outcome(run(6.0)))))
    assert found["ok"] is True
    assert found["fault_to_next_step_s"] == 7.5
    assert found["fault_to_next_step_without_pods_s"] == 6.0
    assert as_json(outcome(None))["fault_to_next_step_without_pods_s"] is None
