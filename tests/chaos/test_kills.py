"""Killing agent, bridge or launcher at any time changes only the duration.

In the time of the requeue on each Slurm release; before the drain, and the bridge, which a requeue does not
concern, on one. ``scripts/test demo`` kills the same parts later, too, during the demo's training.
"""

from __future__ import annotations

import os
import random
import time

import pytest
from testbed.box import Box

from tests.chaos.kills import kill_agent, kill_bridge, kill_launcher, once_it_runs
from tests.e2e import cluster
from tests.e2e.job import training

pytestmark = [pytest.mark.e2e, pytest.mark.chaos]

SEED = int(os.environ.get("HOLDFAST_CHAOS_SEED", "1"))


@pytest.mark.one_release
@pytest.mark.parametrize("victim_part", ["agent", "bridge", "launcher"])
def test_a_kill_right_after_the_fault_changes_only_the_duration(
    clean_box: Box, victim_part: str
) -> None:
    _killed(clean_box, victim_part, 0.1)


@pytest.mark.one_release
def test_a_kill_of_the_bridge_changes_no_requeue(clean_box: Box) -> None:
    _killed(clean_box, "bridge", 1.5)


@pytest.mark.parametrize("victim_part", ["agent", "launcher"])
def test_a_kill_during_the_requeue_changes_only_the_duration(
    clean_box: Box, victim_part: str
) -> None:
    _killed(clean_box, victim_part, 1.5)


def _killed(box: Box, victim_part: str, moment_s: float) -> None:
    moment_s += random.Random(f"{SEED} {victim_part} {moment_s}").uniform(0, 0.3)
    # long enough that a killed agent has restarted before the job ends
    job = training.submit(box, steps=70)
    job.wait_step(7)
    nodes = job.nodes()
    box.fault(nodes[1], "gpu-lost", "--gpu", "3")
    time.sleep(moment_s)
    if victim_part == "agent":
        assert kill_agent(box, nodes[1])
        kill_agent(box, nodes[0])
    elif victim_part == "bridge":
        assert kill_bridge(box)
    else:
        # Between two attempts there is none, and the next one may run elsewhere.
        assert once_it_runs(
            lambda: any([kill_launcher(box, node.name) for node in box.nodes])  # noqa: C419 - all
        )

    cluster.wait_for(lambda: cluster.drained(box, nodes[1]), "the faulty node is drained", 30)
    job.wait_state("COMPLETED", 180)
    assert job.restarts >= 1
    assert {step["step"] for step in job.steps()} == set(range(1, 71))
    cluster.wait_for(
        lambda: "holdfast.dev/drained" in cluster.taints(box, nodes[1]), "the taint", 30
    )
    box.heal(nodes[1])
    cluster.wait_for(lambda: cluster.in_service(box, nodes[1]), "returned to service", 60)


def test_a_job_whose_launcher_was_killed_on_a_healthy_node_resumes(clean_box: Box) -> None:
    job = training.submit(clean_box, steps=40)
    job.wait_step(7)
    host = job.nodes()[0]
    assert once_it_runs(lambda: kill_launcher(clean_box, host))
    job.wait_state("COMPLETED", 180)
    assert {step["step"] for step in job.steps()} == set(range(1, 41))
