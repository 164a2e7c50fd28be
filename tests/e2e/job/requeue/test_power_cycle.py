"""A node loses power and boots at once, in each phase of a job: the job continues."""

from __future__ import annotations

import pytest
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.job import training

pytestmark = pytest.mark.e2e


def _victim(job: training.Training) -> str:
    """A node of the job without its launcher."""
    return next(name for name in job.nodes() if name != job.job()["batch_host"])


def _drained(box: Box, victim: str) -> None:
    box.fault(victim, "gpu-lost", "--gpu", "1")
    cluster.wait_for(lambda: cluster.drained(box, victim), "the node is drained", 20)


def _continues(job: training.Training, timeout_s: float = 100) -> None:
    """Wait until a later attempt has made progress: before Slurm's requeue delay of 121 s is over."""
    job.wait(
        lambda: any(step["attempt"] not in ("", "1") for step in job.steps()),
        "attempt 2",
        timeout_s,
    )


def test_a_power_cycle_of_a_healthy_node(clean_box: Box) -> None:
    """No node is drained or DOWN, and srun gets no message."""
    job = training.submit(clean_box, steps=200)
    job.wait_step(6)
    clean_box.fault(_victim(job), "power-cycle")
    _continues(job)
    assert "LOST" in job.log()
    assert job.restarts == 1
    assert job.job()["excluded_nodes"] == ""


def test_a_power_cycle_right_after_the_drain(clean_box: Box) -> None:
    """The node is repaired and in service again before the launcher's next poll."""
    job = training.submit(clean_box, steps=200)
    job.wait_step(6)
    victim = _victim(job)
    _drained(clean_box, victim)
    clean_box.heal(victim)  # heals by a power cycle
    _continues(job)
    assert job.job()["excluded_nodes"] == ""


def test_a_power_cycle_while_the_job_is_requeued(clean_box: Box) -> None:
    job = training.submit(clean_box, steps=200)
    job.wait_step(6)
    victim = _victim(job)
    _drained(clean_box, victim)
    job.wait(lambda: job.restarts == 1, "requeued", 30)
    clean_box.heal(victim)
    _continues(job)


def test_a_power_cycle_while_the_job_starts(clean_box: Box) -> None:
    job = training.submit(clean_box, steps=200)
    job.wait(lambda: job.state in ("RUNNING", "CONFIGURING"), "a start")
    victim = _victim(job)
    clean_box.fault(victim, "power-cycle")
    job.wait_step(6, 90)


def test_a_restart_of_slurmd_does_not_affect_the_job(clean_box: Box) -> None:
    """BootTime changes here too: a slurmd started by hand reports the host's boot time."""
    job = training.submit(clean_box, steps=60)
    job.wait_step(3)
    victim = _victim(job)
    clean_box.fault(victim, "slurmd-killed")
    clean_box.heal(victim, "slurmd-killed")
    job.wait_state("COMPLETED")
    assert job.restarts == 0
    assert "attempt 2" not in job.log()
