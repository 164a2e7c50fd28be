"""How jobs under ``holdfast run`` end: what is requeued, and above all what is not."""

from __future__ import annotations

import pytest
from testbed.box import Box

from tests.e2e import cluster, training

pytestmark = pytest.mark.e2e


def test_exit_93_is_never_requeued(clean_box: Box) -> None:
    job = training.submit(clean_box, steps=3, code=93)
    job.wait_state("FAILED")
    cluster.stays(
        lambda: job.state == "FAILED" and job.restarts == 0, "93 means: do not requeue", 6
    )


def test_a_cancelled_job_stays_cancelled(clean_box: Box) -> None:
    job = training.submit(clean_box)
    job.wait_step(3)
    clean_box.run(["scancel", str(job.job_id)], user="alice")
    job.wait(lambda: job.state.startswith("CANCELLED"), "cancelled", 30)
    cluster.stays(
        lambda: job.state.startswith("CANCELLED") and job.restarts == 0, "scancel is final", 6
    )


def test_no_requeue_is_honoured(clean_box: Box) -> None:
    job = training.submit(clean_box, requeue=False)
    job.wait_step(3)
    victim = job.nodes()[1]
    clean_box.fault(victim, "gpu-lost", "--gpu", "1")
    cluster.wait_for(
        lambda: cluster.drained(clean_box, victim), "the node is drained all the same", 10
    )
    job.wait(lambda: job.state not in ("RUNNING", "COMPLETING", "RUNNING+COMPLETING"), "ended", 30)
    cluster.stays(
        lambda: job.restarts == 0 and job.state != "RUNNING",
        "a --no-requeue job is not requeued",
        5,
    )


def test_a_healthy_run_completes_once(clean_box: Box) -> None:
    job = training.submit(clean_box, steps=12)
    job.wait_state("COMPLETED")
    assert job.restarts == 0
    assert [step["step"] for step in job.steps()] == list(range(1, 13))
