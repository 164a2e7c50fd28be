"""``holdfast run --continue``: jobs that need more time than their limit."""

from __future__ import annotations

import pytest
from testbed.box import Box

from tests.e2e.job import training

pytestmark = [pytest.mark.e2e, pytest.mark.one_release, pytest.mark.timeout(600)]

_RUNS = (("--time=2", "--continue 120", 60), ("--time=3", "--continue USR1@120", 350))
"""Limit, option of ``holdfast run``, and steps of 0.2 s each."""


def test_jobs_continue_with_a_new_time_limit(clean_box: Box) -> None:
    """The whole time of the first is within 120 s of the limit, so each run ends after its first
    checkpoint. The second gets the signal after a minute, when its ranks have saved one, and they end by
    it."""
    jobs = [
        (training.submit(clean_box, steps=steps, options=(limit,), run=option), steps)
        for limit, option, steps in _RUNS
    ]
    for job, steps in jobs:
        job.wait_state("COMPLETED", 280)
        log = job.log()
        assert job.restarts >= 1, log
        assert "decision: requeue: time limit" in log
        assert job.restarts == log.count("decision: requeue: time limit"), "all for this reason"
        begins = sorted({step["begin"] for step in job.steps()})
        assert len(begins) == job.restarts + 1, "each run continued from a newer checkpoint"
        assert {step["step"] for step in job.steps()} == set(range(1, steps + 1))
    assert "sending SIGUSR1" in jobs[1][0].log()
