"""Jobs that are requeued at a checkpoint: before their time limit, away from a degraded node, and before a
machine is stopped."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone

import pytest
from testbed.box import Box

from tests.e2e import cluster
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


_SAVES_AT_USR1 = r"""
exec python3 - <<'END'
import os, signal, time, zipfile
folder, rank = os.path.dirname(os.environ["HOLDFAST_JOURNAL"]) + "/..", os.environ["SLURM_PROCID"]
if os.environ["HOLDFAST_ATTEMPT"] == "2":
    raise SystemExit(0)
def save(number, frame):
    if rank == "0":
        time.sleep(3)
        with zipfile.ZipFile(folder + "/step_7.pt.tmp", "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
            archive.writestr("archive/version", "3")
        os.rename(folder + "/step_7.pt.tmp", folder + "/step_7.pt")
signal.signal(signal.SIGUSR1, save)
open(f"{folder}/up.{rank}", "w").close()
while True:
    time.sleep(0.2)
END
"""


def test_a_job_leaves_a_degraded_node_after_the_checkpoint_it_is_asked_for(clean_box: Box) -> None:
    box = clean_box
    job = training.submit(box, rank=_SAVES_AT_USR1, run="--checkpoint-signal USR1")
    folder = box.path(job.folder)
    job.wait(lambda: len(list(folder.glob("up.*"))) == 4, "its ranks")
    first = job.nodes()
    try:
        box.fault(first[1], "thermal", "--gpu", "1")
        cluster.wait_for(lambda: cluster.drained(box, first[1]), f"{first[1]} drained", 90)
        job.wait_state("COMPLETED", 120)
    finally:
        box.heal(first[1])
    log = job.log()
    assert f"degraded: {first[1]} (GPU_THERMAL" in log, log
    assert "sending SIGUSR1; the job leaves after its next checkpoint" in log
    assert f"decision: requeue: leaves {first[1]} (GPU_THERMAL" in log
    assert "attempt 2 of job" in log
    assert "starts from" in log
    assert "step_7.pt" in log
    assert (job.restarts, "work lost" in log) == (1, False)


def test_a_job_leaves_before_its_machine_is_stopped(clean_box: Box) -> None:
    """The condition that Nebius sets, a bridge that drains for it, and a job that is asked for a checkpoint."""
    box = clean_box
    job = training.submit(box, rank=_SAVES_AT_USR1, run="--checkpoint-signal USR1")
    folder = box.path(job.folder)
    job.wait(lambda: len(list(folder.glob("up.*"))) == 4, "its ranks")
    node = job.nodes()[1]
    stop = time.time() + 300
    try:
        _maintenance(box, node, "True", stop)
        cluster.wait_for(lambda: cluster.drained(box, node), f"{node} drained", 20)
        assert f"jobs=leave until={int(stop) // 5 * 5}" in cluster.reason(box, node)
        job.wait_state("COMPLETED", 60)
    finally:
        _maintenance(box, node, "False", stop)
    log = job.log()
    assert f"degraded: {node} (KUBE_RULE" in log, log
    assert "sending SIGUSR1; the job leaves after its next checkpoint, as the machine is" in log
    assert "step_7.pt" in log
    assert (job.restarts, "work lost" in log) == (1, False)
    cluster.wait_for(lambda: cluster.in_service(box, node), f"{node} in service again", 20)


def _maintenance(box: Box, node: str, status: str, deadline: float) -> None:
    at = datetime.fromtimestamp(deadline, timezone.utc)
    now = datetime.now(timezone.utc)
    row = {
        "type": "NebiusMaintenanceScheduled",
        "status": status,
        "message": f"SLA deadline is {at:%Y-%m-%dT%H:%M:%SZ}",
        "lastTransitionTime": f"{now:%Y-%m-%dT%H:%M:%SZ}",
    }
    patch = json.dumps({"status": {"conditions": [row]}})
    box.kubectl("patch", "node", cluster.kube_name(box, node), "--subresource=status", "-p", patch)
