"""The demo's training with agent, bridge or launcher killed at any time: only the duration changes.

Each round draws a time between shortly before the fault and the node's return. Rounds and seed:
HOLDFAST_CHAOS_ROUNDS (1 for each of the three) and HOLDFAST_CHAOS_SEED. On one Slurm release:
tests/chaos/test_kills.py kills the same parts, with a training that starts faster.
"""

from __future__ import annotations

import os
import random
import threading

import pytest
from demonstration.jobs import Job, Order, install, submit, weights_digest
from demonstration.observe import Cluster, NotSeenError
from testbed.box import Box

from tests.chaos.kills import kill_agent, kill_bridge, kill_launcher, once_it_runs
from tests.conftest import Boxes
from tests.e2e import cluster

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.one_release]

SEED = os.environ.get("HOLDFAST_CHAOS_SEED", "1")
ROUNDS = int(os.environ.get("HOLDFAST_CHAOS_ROUNDS", "1"))
RANKS, STEPS, FAULT_STEP = 2, 60, 13
EARLIEST_S, LATEST_S = -1.0, 14.0
"""Relative to the fault: from a step before it until the node is returning."""
LONGEST_S = 240.0
"""If launcher and agent are killed together, Slurm's requeue delay of 121 s applies."""


@pytest.fixture(scope="module")
def reference(boxes: Boxes, release: str) -> str:
    """Digest of the weights of the same training without a fault."""
    box = boxes.get(release)
    install(box)
    order = Order(
        name="chaos-reference",
        script="train_plain",
        ranks_per_node=RANKS,
        steps=STEPS,
        step_s=0.0,
    )
    job = submit(Cluster(box), order)
    job.wait_state("COMPLETED")
    return weights_digest(job)


MOMENTS = [
    (part, round(random.Random(f"{SEED} {part} {turn}").uniform(EARLIEST_S, LATEST_S), 1))
    for turn in range(ROUNDS)
    for part in ("agent", "bridge", "launcher")
]


@pytest.mark.timeout(420)
@pytest.mark.parametrize(("part", "moment_s"), MOMENTS)
def test_a_kill_at_any_time_of_the_demo(
    clean_box: Box, reference: str, part: str, moment_s: float
) -> None:
    box = clean_box
    install(box)  # after a failure it is a new one
    order = Order(
        name=f"chaos-{part}-{moment_s}", script="train_holdfast", ranks_per_node=RANKS, steps=STEPS
    )
    job = submit(Cluster(box), order)
    batch, victim = job.wait_state("RUNNING", timeout_s=60).nodes
    job.wait_step(FAULT_STEP)
    killed: list[bool] = []
    kill = threading.Timer(
        moment_s - EARLIEST_S,
        lambda: killed.append(once_it_runs(lambda: _kill(box, part, batch, victim))),
    )
    fault = threading.Timer(-EARLIEST_S, box.fault, (victim, "gpu-lost", "--gpu", "1"))
    for timer in (kill, fault):
        timer.start()
    try:
        cluster.wait_for(lambda: cluster.drained(box, victim), "the faulty node is drained", 40)
        cluster.wait_for(
            lambda: "holdfast.dev/drained" in cluster.taints(box, victim), "the taint", 40
        )
        kill.join()
        assert killed == [True], f"no {part} was running"
        box.heal(victim)
        _completes(job)
    finally:
        fault.join()
        kill.join()
    assert weights_digest(job) == reference
    assert job.view().restarts >= 1
    cluster.wait_for(lambda: cluster.in_service(box, victim), "returned to service", 90)
    cluster.wait_for(
        lambda: "holdfast.dev/drained" not in cluster.taints(box, victim), "the taint removed", 40
    )


def _completes(job: Job) -> None:
    try:
        job.wait_state("COMPLETED", timeout_s=LONGEST_S)
    except NotSeenError as error:
        raise AssertionError(f"{error}\n{error.scene}") from None


def _kill(box: Box, part: str, batch: str, victim: str) -> bool:
    """Kill that part. False when none was running."""
    if part == "bridge":
        return kill_bridge(box)
    if part == "agent":
        killed = [kill_agent(box, victim), kill_agent(box, batch)]
    else:  # by now the job may have moved
        killed = [kill_launcher(box, node.name) for node in box.nodes]
    return any(killed)
