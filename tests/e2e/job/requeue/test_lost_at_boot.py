"""A node that boots within seconds of a job's start: slurmctld does not notice, and the job must not hang."""

from __future__ import annotations

import re

import pytest
from testbed.box import Box

from tests.e2e import cluster, plain_jobs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

LOG = "/var/log/holdfast/agent.{}.log"
NOTICED_S = 40.0
"""The agent looks 15 s after the boot; slurmctld itself would notice after 55 s."""


def _slurmctld_noticed(box: Box, job: str) -> bool:
    """slurmctld itself requeued the job, when the node registered or because of its unexpected reboot."""
    text = box.path("/var/log/slurm/slurmctld.log").read_text(errors="replace")
    noticed = rf"JobId={job} (missing from batch node|due to failure of node)"
    return re.search(noticed, text) is not None


def test_a_job_that_a_boot_ended_at_its_start_is_requeued_and_no_other(clean_box: Box) -> None:
    """Beside it a job that starts after a boot: it is left alone."""
    box, node, booted = clean_box, "worker-3", "worker-2"
    log = box.path(LOG.format(node))
    before = cluster.slurm_node(box, booted)["slurmd_start_time"]
    box.reboot(booted)
    # slurmctld ends what runs on the node when it sees the boot, a job that was submitted too early as well.
    cluster.wait_for(
        lambda: cluster.slurm_node(box, booted)["slurmd_start_time"] != before,
        f"{booted} registered",
    )
    cluster.wait_for(lambda: cluster.in_service(box, booted), f"{booted} in service")
    later = plain_jobs.submit(box, f"--nodelist={booted}", command="sleep 25")
    job = plain_jobs.submit(box, f"--nodelist={node}", command="sleep 25")
    try:
        cluster.wait_for(
            lambda: plain_jobs.shown(box, job, "State") == "RUNNING", "the job's start"
        )
        box.reboot(node)
        cluster.wait_for(
            lambda: plain_jobs.shown(box, job, "State") == "PENDING",
            "the requeue",
            NOTICED_S,
            lambda: log.read_text()[-3000:],
        )
        # By the agent, which logs it a moment later, or by slurmctld, where a busy machine needs more than
        # 20 s to boot.
        by_agent = f"{job}: requeued, because this node's boot ended it"
        cluster.wait_for(
            lambda: by_agent in log.read_text() or _slurmctld_noticed(box, job), "who requeued it"
        )
        assert plain_jobs.shown(box, job, "RestartCnt") == "1"
        cluster.wait_for(
            lambda: "JobState=COMPLETED" in box.run(["scontrol", "show", "job", later]).stdout,
            "the end of the job after a boot",
            60,
            lambda: (
                box.run(["scontrol", "show", "job", later]).stdout
                + box.run(
                    ["grep", "-aE", f"JobId={later} |{booted}", "/var/log/slurm/slurmctld.log"]
                ).stdout
                + box.path(LOG.format(booted)).read_text()[-3000:]
            ),
        )
        assert "Restarts=0" in box.run(["scontrol", "show", "job", later]).stdout
    finally:
        box.run(["scancel", job, later], check=False)
