"""Jobs with ``sbatch --requeue=expedite`` (Slurm 25.11 and newer) under ``holdfast run``."""

from __future__ import annotations

import pytest
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.job import training

pytestmark = [pytest.mark.e2e, pytest.mark.one_release]

EXPEDITE = ("--requeue=expedite",)


@pytest.fixture
def box(release: str, request: pytest.FixtureRequest) -> Box:
    if release < "25.11":  # before a box starts for nothing
        pytest.skip(f"Slurm {release} has no expedited requeue")
    box: Box = request.getfixturevalue("clean_box")
    return box


def test_a_killed_launcher_and_a_fault_do_not_hold_the_job(box: Box) -> None:
    """Slurm itself would hold the job after the first of the two."""
    job = training.submit(box, options=EXPEDITE)
    job.wait_step(2)
    launchers = box.run(["pgrep", "-f", "holdfast run"]).stdout.split()
    box.run(["kill", "-9", *launchers])
    job.wait(lambda: job.restarts == 1 and job.state == "RUNNING", "a start after the kill")
    job.wait(lambda: any(step["attempt"] == "2" for step in job.steps()), "a step of attempt 2")
    node = job.nodes()[1]
    box.fault(node, "xid", "79", "--gpu", "2")
    job.wait_state("COMPLETED", 120)
    assert (job.restarts, node in job.nodes()) == (2, False), job.log()
    assert job.steps()[-1]["attempt"] == "3"
    assert cluster.drained(box, node)


def test_an_error_of_the_user_ends_the_job_as_failed(box: Box) -> None:
    """Slurm itself would hold it."""
    job = training.submit(
        box, options=EXPEDITE, rank="echo ModuleNotFoundError: No module named x >&2; exit 1"
    )
    job.wait_state("FAILED")
    assert (job.restarts, job.job()["exit_code"]["return_code"]["number"]) == (0, 1), job.log()
