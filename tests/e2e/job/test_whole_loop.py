"""End to end: a faulty H100 is drained, its job continues elsewhere, Kubernetes is updated, the node
returns.
"""

from __future__ import annotations

import pytest
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.job import training

pytestmark = pytest.mark.e2e


def test_a_lost_gpu_costs_seconds_and_no_step(clean_box: Box) -> None:
    box = clean_box
    job = training.submit(box)
    job.wait_step(12)
    victim = job.nodes()[1]
    box.fault(victim, "gpu-lost", "--gpu", "5")

    cluster.wait_for(lambda: cluster.drained(box, victim), f"{victim} drained", 5)
    assert cluster.reason(box, victim).startswith("holdfast:")
    job.wait(lambda: job.restarts == 1 and job.state == "RUNNING", "running again", 30)
    assert victim not in job.nodes()
    cluster.wait_for(
        lambda: cluster.condition(box, victim, "HoldfastSlurmDrained") == "True", "the condition"
    )
    cluster.wait_for(lambda: "holdfast.dev/drained" in cluster.taints(box, victim), "the taint")
    cluster.wait_for(lambda: bool(cluster.events(box, victim)), "an event")
    job.wait_state("COMPLETED", 60)

    second = [step for step in job.steps() if step["attempt"] != job.steps()[0]["attempt"]]
    assert second[0]["begin"] >= 10, "resumed from the last good checkpoint"
    assert {step["step"] for step in job.steps()} == set(range(1, 61)), "no step is missing"
    agent = box.node(victim).run(["cat", f"/var/log/holdfast/agent.{victim}.log"]).stdout
    killed = [line for line in agent.splitlines() if "task killed" in line]
    assert killed, "the agent has ended the tasks"
    assert all("stacks=True" in line for line in killed), killed
    assert "Fatal Python error: Aborted" in job.log(), "they have printed their stacks before"

    box.heal(victim)
    cluster.wait_for(lambda: cluster.in_service(box, victim), f"{victim} returned to service")
    cluster.wait_for(lambda: not cluster.taints(box, victim), "the taint removed")
    cluster.wait_for(lambda: not cluster.cordoned(box, victim), "uncordoned")


def test_a_lost_gpu_of_the_batch_host_moves_the_job(clean_box: Box) -> None:
    """The launcher runs on the first node, so a fault there is handled differently."""
    job = training.submit(clean_box)
    job.wait_step(7)
    victim = job.nodes()[0]
    clean_box.fault(victim, "xid", "79", "--gpu", "0")
    job.wait(lambda: job.restarts == 1 and job.state == "RUNNING", "running again", 30)
    assert victim not in job.nodes()
    job.wait_state("COMPLETED", 60)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_manual_drain_is_kept_with_its_reason(clean_box: Box, when: str) -> None:
    box, node = clean_box, "worker-1"

    def by_hand() -> None:
        box.run(["scontrol", "update", f"nodename={node}", "state=drain", "reason=swapping a DIMM"])

    if when == "before":
        by_hand()
    box.fault(node, "gpu-lost", "--gpu", "2")
    if when == "after":
        cluster.wait_for(lambda: cluster.drained(box, node), "drained by Holdfast", 10)
        by_hand()
    cluster.stays(
        lambda: cluster.reason(box, node) == "swapping a DIMM",
        "a manual reason is never overwritten",
        8,
    )
    box.heal(node)
    cluster.stays(
        lambda: cluster.drained(box, node) and cluster.reason(box, node) == "swapping a DIMM",
        "a manual drain is never undone",
        25,
    )


def test_a_cordon_drains_and_an_uncordon_undrains(clean_box: Box) -> None:
    box, node = clean_box, "worker-2"
    drains, undrains = cluster.bridge_writes(box, "DrainInSlurm", "UndrainInSlurm")
    box.kubectl("cordon", cluster.kube_name(box, node))
    cluster.wait_for(lambda: cluster.drained(box, node), "drained after the cordon", 15)
    assert cluster.reason(box, node).startswith("holdfast:KUBE_CORDON:")
    cluster.stays(
        lambda: cluster.drained(box, node), "the agent does not change the bridge's drain", 12
    )
    box.kubectl("uncordon", cluster.kube_name(box, node))
    cluster.wait_for(lambda: cluster.in_service(box, node), "undrained after the uncordon", 15)
    counted = cluster.bridge_writes(box, "DrainInSlurm", "UndrainInSlurm")
    assert counted == [drains + 1, undrains + 1], "in the bridge's metrics"


def test_after_a_reboot_through_slurm_a_drain_is_still_holdfasts(clean_box: Box) -> None:
    """slurmctld appends "reboot issued" to the reason and becomes its user."""
    box, broken, cordoned = clean_box, "worker-1", "worker-2"

    def reboot(node: str) -> None:
        cluster.wait_for(lambda: cluster.drained(box, node), f"{node} drained", 15)
        box.run(["scontrol", "reboot", "ASAP", node])
        cluster.wait_for(
            lambda: cluster.reason(box, node).endswith(" : reboot issued"), f"{node} rebooted", 15
        )

    box.fault(broken, "gpu-lost", "--gpu", "4")
    box.kubectl("cordon", cluster.kube_name(box, cordoned))
    reboot(broken)
    reboot(cordoned)
    box.heal(broken)
    box.kubectl("uncordon", cluster.kube_name(box, cordoned))
    cluster.wait_for(lambda: cluster.in_service(box, broken), "returned to service by its agent")
    cluster.wait_for(lambda: cluster.in_service(box, cordoned), "returned to service by the bridge")


def test_a_manual_drain_sets_the_condition_and_is_not_changed(clean_box: Box) -> None:
    box, node = clean_box, "worker-3"
    box.run(["scontrol", "update", f"nodename={node}", "state=drain", "reason=burn-in"])
    cluster.wait_for(
        lambda: cluster.condition(box, node, "HoldfastSlurmDrained") == "True", "the condition"
    )
    cluster.stays(
        lambda: not cluster.cordoned(box, node), "a drain by others does not cordon the node", 5
    )
    box.run(["scontrol", "update", f"nodename={node}", "state=undrain"])
    cluster.wait_for(
        lambda: cluster.condition(box, node, "HoldfastSlurmDrained") == "False",
        "the condition cleared",
    )


def test_an_unkillable_probe_delays_no_job(clean_box: Box) -> None:
    box, node = clean_box, "worker-1"
    box.fault(node, "nvml-unkillable")
    took_s = cluster.wait_for(
        lambda: (
            box.run(
                ["srun", "-w", node, "-N1", "--immediate=5", "true"], user="alice", check=False
            ).returncode
            == 0
        ),
        "a job starts while the driver hangs",
        10,
    )
    assert took_s < 10
    cluster.wait_for(
        lambda: cluster.reason(box, node).startswith("holdfast:DRIVER_HUNG"),
        "drained for DRIVER_HUNG",
    )
    box.heal(node)
    cluster.wait_for(lambda: cluster.in_service(box, node), "returned to service", 60)
