"""``holdfast run --continue``: jobs that need more time than their limit."""

from __future__ import annotations

import pytest
from testbed.box import Box

from tests.e2e.job import training

pytestmark = pytest.mark.e2e

_STEPS = 60


def test_jobs_continue_with_a_new_time_limit(clean_box: Box) -> None:
    """Their whole time is within 120 s of the limit, so each run ends after its first checkpoint. The
    second job's ranks end by the signal."""
    jobs = [
        training.submit(clean_box, steps=_STEPS, options=("--time=2",), run=f"--continue {when}")
        for when in ("120", "USR1@120")
    ]
    for job in jobs:
        job.wait_state("COMPLETED", 180)
        log = job.log()
        assert job.restarts >= 1, log
        assert "decision: requeue: time limit" in log
        assert job.restarts == log.count("decision: requeue: time limit"), "all for this reason"
        begins = sorted({step["begin"] for step in job.steps()})
        assert len(begins) == job.restarts + 1, "each run continued from a newer checkpoint"
        assert {step["step"] for step in job.steps()} == set(range(1, _STEPS + 1))
    assert "sending SIGUSR1" in jobs[1].log()
