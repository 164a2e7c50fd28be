"""How jobs under ``holdfast run`` end: what is requeued, and above all what is not."""

from __future__ import annotations

import os
import signal

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


def test_what_ended_for_good_while_its_agent_was_down_stays_so(clean_box: Box) -> None:
    """To the agent that comes back its launcher is gone and the job failed, as after a kill."""
    job = training.submit(clean_box, steps=15, code=93)
    job.wait_step(3)
    host = job.nodes()[0]
    agents = [pid for pid, argv in clean_box.pids(host) if "slurm_hooks.agent" in argv]
    assert agents
    for pid in agents:
        os.kill(pid, signal.SIGSTOP)
    job.wait_state("FAILED")
    for pid in agents:
        os.kill(pid, signal.SIGKILL)
    assert job.job()["requeue"] is False
    old = agents[0]
    cluster.wait_for(
        lambda: any(
            pid != old and "slurm_hooks.agent" in argv for pid, argv in clean_box.pids(host)
        ),
        "the next agent",
    )
    cluster.stays(lambda: job.state == "FAILED" and job.restarts == 0, "93 means 93", 8)
