"""How jobs under ``holdfast run`` end: which are requeued and which are not."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.job import training

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


def test_a_job_with_no_requeue_is_not_requeued(clean_box: Box) -> None:
    job = training.submit(clean_box, requeue=False)
    job.wait_step(3)
    victim = job.nodes()[1]
    clean_box.fault(victim, "gpu-lost", "--gpu", "1")
    cluster.wait_for(lambda: cluster.drained(clean_box, victim), "the node is drained anyway", 10)
    job.wait(lambda: job.state not in ("RUNNING", "COMPLETING", "RUNNING+COMPLETING"), "ended", 30)
    cluster.stays(
        lambda: job.restarts == 0 and job.state != "RUNNING",
        "a --no-requeue job is not requeued",
        5,
    )


def test_a_job_without_a_fault_completes_in_one_run(clean_box: Box) -> None:
    job = training.submit(clean_box, steps=12)
    job.wait_state("COMPLETED")
    assert job.restarts == 0
    assert [step["step"] for step in job.steps()] == list(range(1, 13))


_SAVES = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"
"""Ranks that save on SIGTERM and exit with status 0."""


def _scancel(*words: str) -> Callable[[Box, str], None]:
    def act(box: Box, job: str) -> None:
        box.run(["scancel", *(word.replace("JOB", job) for word in words)], user="alice")

    return act


def _requeue(box: Box, job: str) -> None:
    box.run(["scontrol", "requeue", job])


def _running(box: Box, rank: str = "") -> training.Training:
    job = training.submit(box, rank=rank)
    if not rank:
        job.wait_step(2)
        return job
    query = ["scontrol", "show", "step", f"{job.job_id}.0"]
    job.wait(lambda: "State=RUNNING" in box.run(query, check=False).stdout, "its step")
    return job


def _ending(job: training.Training) -> dict[str, object]:
    """The last attempt's end, as ``holdfast explain`` reports it."""
    words = ["holdfast", "explain", str(job.job_id), "--checkpoints", job.folder, "--json"]
    attempts = json.loads(job.box.run(words).stdout)["attempts"]
    return dict(attempts[0])


@pytest.mark.parametrize(
    ("act", "state"),
    [(_scancel("JOB"), "CANCELLED"), (_requeue, "PENDING")],
    ids=["cancel", "requeue"],
)
def test_exit_code_0_is_no_success_when_slurm_ended_the_job(
    clean_box: Box, act: Callable[[Box, str], None], state: str
) -> None:
    job = _running(clean_box, _SAVES)
    act(clean_box, str(job.job_id))
    job.wait(lambda: "not requeued by Holdfast" in job.log(), "the launcher's last word", 30)
    assert "done: exit code 0" not in job.log()
    assert f"job state {state}" in job.log()
    ending = _ending(job)
    # 143, or srun's status where slurmctld ended srun first
    assert (ending["job_state"], ending["exit_code"] in (1, 143)) == (state, True)


@pytest.mark.parametrize(
    "words", [("JOB.0",), ("-s", "TERM", "JOB.0"), ("-s", "TERM", "JOB")], ids=" ".join
)
def test_a_step_that_its_user_cancelled_is_not_restarted(
    clean_box: Box, words: tuple[str, ...]
) -> None:
    # The ranks exit a moment later: on 24.11 srun's own cancel after a failure looks the same.
    job = _running(clean_box, "trap 'sleep 0.5; exit 143' TERM; while :; do sleep 0.1; done")
    _scancel(*words)(clean_box, str(job.job_id))
    job.wait(lambda: job.state not in ("RUNNING", "COMPLETING"), "its end", 30)
    assert f"step {job.job_id}.0 was cancelled" in job.log()
    assert "attempt 2" not in job.log()
    assert job.restarts == 0


def test_a_batch_script_that_its_user_ended_is_not_restarted(clean_box: Box) -> None:
    job = _running(clean_box)
    _scancel("--batch", "-s", "TERM", "JOB")(clean_box, str(job.job_id))
    job.wait_state("FAILED")
    cluster.stays(lambda: job.state == "FAILED" and job.restarts == 0, "the user ended it", 4)


def test_a_job_that_failed_while_its_agent_was_down_is_not_requeued(clean_box: Box) -> None:
    """For the restarted agent the launcher is gone and the job failed, as after a kill."""
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
    cluster.stays(
        lambda: job.state == "FAILED" and job.restarts == 0, "93 means: do not requeue", 8
    )
