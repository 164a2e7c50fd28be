"""Pods on the newest Slurm with auth/slurm: slurmctld in its pod, and a bridge with sackd beside it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testbed.box import Box
from testbed.shape import CONTROLLER
from testbed.terraform import example

from holdfast.cli.commands.render import render_text
from tests.e2e import cluster
from tests.terraform.pods import (
    SLOW_S,
    acts_without_a_token,
    in_box,
    in_bridge,
    inputs,
    kube_nodes,
    remove_what_stays,
    started,
)

pytestmark = [pytest.mark.terraform, pytest.mark.timeout(1200)]

RELEASE = "26.05"
NODE = "worker-0"
STAYS_S = 4.0
"""Longer than kubelet and its controllers need to start a pod again."""

POD = ("pod", "controller-0", "--namespace=soperator")


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with started("ctld", nodes=1, slurm=RELEASE, auth="slurm") as running:
        yield running


def up(box: Box) -> bool:
    """As its node sees it: with auth/slurm, commands on the controller wait for slurmctld's own socket."""
    return "is UP" in box.node(NODE).run(["scontrol", "ping"], check=False).stdout


def container(box: Box) -> dict[str, Any]:
    pod = json.loads(box.kubectl("get", *POD, "--output=json"))
    (found,) = pod["status"]["containerStatuses"]
    assert isinstance(found, dict)
    return found


def long_job(box: Box) -> str:
    """A job that runs; it is in slurmctld's saved state."""
    words = ["sbatch", "--parsable", "--output=/dev/null", "--wrap", "srun sleep 600"]
    job = box.run(words, user="alice").stdout.strip()
    cluster.wait_for(lambda: state(box, job) == "RUNNING", "the job running")
    return job


def state(box: Box, job: str) -> str:
    shown = box.run(["squeue", "--noheader", "--format=%T", "--jobs", job], check=False)
    return shown.stdout.strip()


def test_slurmctld_runs_in_a_pod_that_kubelet_starts_again(box: Box) -> None:
    pid = box.daemons()["slurmctld"]
    assert "/kubepods" in Path(f"/proc/{pid}/cgroup").read_text()
    assert container(box)["restartCount"] == 0
    job = long_job(box)
    box.run(["scontrol", "reconfigure"])
    cluster.wait_for(lambda: up(box), "slurmctld after a reconfiguration", SLOW_S)
    assert container(box)["restartCount"] == 0
    box.signal_daemon("slurmctld", signal.SIGKILL)
    cluster.wait_for(lambda: container(box)["restartCount"] == 1, "a restart by kubelet", SLOW_S)
    cluster.wait_for(lambda: up(box), "slurmctld", SLOW_S)
    assert state(box, job) == "RUNNING"
    box.run(["scancel", job])


def test_a_fault_of_slurmctld_lasts_until_it_is_healed(box: Box) -> None:
    job = long_job(box)
    for kind in ("slurmctld-stopped", "slurmctld-killed"):
        box.fault(CONTROLLER, kind)
        time.sleep(STAYS_S)
        was_up, runs = up(box), "slurmctld" in box.daemons()
        box.heal(CONTROLLER, kind)
        assert not was_up
        assert runs == (kind == "slurmctld-stopped")
        cluster.wait_for(lambda: up(box), f"slurmctld after {kind}", SLOW_S)
        assert state(box, job) == "RUNNING"
    box.run(["scancel", job])


def test_slurmctld_gets_older_state_back(box: Box) -> None:
    drain = ["scontrol", "update", f"nodename={NODE}", "state=drain", "reason=mine"]
    box.run(drain)
    assert cluster.drained(box, NODE)
    box.fault(CONTROLLER, "slurmctld-restored")
    cluster.wait_for(lambda: up(box), "slurmctld", SLOW_S)
    cluster.wait_for(lambda: cluster.in_service(box, NODE), "the drain forgotten", SLOW_S)


def _inspection(box: Box, job: str) -> tuple[bool, str]:
    """Whether an inspection passed, and its report."""
    words = ("create", "job", "--from=cronjob/holdfast-inspection", job)
    box.kubectl("-n", "holdfast", *words)

    def status() -> dict[str, Any]:
        shown = json.loads(box.kubectl("-n", "holdfast", "get", "job", job, "--output=json"))
        return dict(shown["status"])

    def ended() -> bool:
        return {"Complete", "Failed"} & {one["type"] for one in status().get("conditions", ())} != set()

    cluster.wait_for(ended, "the inspection ended", SLOW_S)
    page = box.kubectl("-n", "holdfast", "logs", f"job/{job}", "--container=inspect")
    return status().get("succeeded") == 1, page


def inspects_as_root(box: Box) -> None:
    """`holdfast inspect` from a pod: sackd beside it signs as root, and its tasks run on the node."""
    conf = "/etc/holdfast/holdfast.yaml"
    box.kubectl("-n", "holdfast", "create", "configmap", "holdfast", f"--from-file={conf}")
    document = render_text(
        "inspection-cronjob", image=box.shape.bridge_image, auth="slurm", checks="host"
    )
    box.kubectl("apply", "-f", "-", stdin=document)
    cluster.wait_for(
        lambda: cluster.slurm_node(box, NODE)["state"] == ["IDLE"],
        "the node idle: others are not inspected",
        SLOW_S,
    )
    # On a busy machine a probe may miss its deadline, which the inspection reports.
    passed, page = _inspection(box, "inspection-1")
    if not passed and "no answer before the deadline" in page:
        passed, page = _inspection(box, "inspection-2")
    assert NODE in page
    assert passed, page
    # The end of the CronJob takes its Jobs along.
    names = ("cronjob/holdfast-inspection", "configmap/holdfast")
    box.kubectl("-n", "holdfast", "delete", "--ignore-not-found", *names)
    cluster.wait_for(lambda: cluster.in_service(box, NODE), "no reservation left")


def test_sackd_beside_the_bridge_agents_as_pods_and_nothing_left(
    program: Path, config: Path, tree: Path, box: Box
) -> None:
    before, values = kube_nodes(box), {**inputs(box), "slurm_auth": "slurm"}
    terraform = in_box(program, config, tree, box)
    terraform.ok("init")
    terraform.ok("apply", "-auto-approve", **values)
    assert terraform.run("plan", "-detailed-exitcode", **values).status == 0
    inspects_as_root(box)
    version = in_bridge(box, "scontrol", "--version")
    assert f" {RELEASE}." in version
    acts_without_a_token(box, NODE, "/etc/slurm-auth/slurm.key", "sackd")
    box.fault(NODE, "gpu-lost", "--gpu", "3")
    cluster.wait_for(lambda: cluster.drained(box, NODE), "drained by an agent in a pod", SLOW_S)
    cluster.wait_for(lambda: bool(cluster.taints(box, NODE)), "the bridge's taint")
    box.heal(NODE)
    cluster.wait_for(lambda: cluster.in_service(box, NODE), "in service", SLOW_S)
    cluster.wait_for(lambda: not cluster.taints(box, NODE), "the taint removed")
    terraform.ok("destroy", "-auto-approve", **values)
    assert example.left_behind(box) == []
    remove_what_stays(box)
    assert kube_nodes(box) == before
