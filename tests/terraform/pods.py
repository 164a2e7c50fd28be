"""examples/sandbox in a box whose machines run pods, for tests."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from testbed.box import Box
from testbed.errors import SandboxError
from testbed.pods import requirements
from testbed.terraform import example

from tests.e2e import cluster
from tests.terraform.program import TREE, Terraform

SLOW_S = 120.0
"""A machine that boots, its pods and their programs, beside other tests on two cores."""

_OF_THE_SERVER = ("managedFields", "resourceVersion", "generation")
_TIMES = ("lastHeartbeatTime", "lastTransitionTime")
_REMOVAL = re.compile(r"^ *for node in .*?^ *done$", re.MULTILINE | re.DOTALL)


@contextmanager
def started(name: str, *, nodes: int, slurm: str, auth: str = "munge") -> Iterator[Box]:
    """A box with pods, for one file of tests; skips where none can run."""
    if os.geteuid() != 0:
        pytest.skip("needs root: it starts a box")
    if lacks := requirements.missing():
        pytest.skip(lacks)
    own = f"{name}-{os.getpid()}"
    running = Box.up(
        own, nodes=nodes, slurm=slurm, owner_pid=os.getpid(), pods=True, auth=auth
    )
    yield running
    running.down()


def inputs(box: Box) -> dict[str, Any]:
    """The example's input variables."""
    given = {name.removeprefix("TF_VAR_"): value for name, value in example.variables(box).items()}
    return {**given, "poll_s": 0.5}


def in_box(program: Path, config: Path, tree: Path, box: Box) -> Terraform:
    """The example's Terraform, in the network of the box."""
    return Terraform(
        program=program,
        folder=tree / "examples" / "sandbox",
        config=config,
        prefix=("nsenter", f"--target={box.pid}", "--net", "--"),
    )


def pods_of(box: Box, name: str) -> list[dict[str, Any]]:
    """The pods of the Deployment or DaemonSet ``name``."""
    selected = ("--selector", f"app.kubernetes.io/name={name}", "--output", "json")
    items: list[dict[str, Any]] = json.loads(
        box.kubectl("get", "pods", "--namespace", "holdfast", *selected)
    )["items"]
    return items


def in_bridge(box: Box, *argv: str) -> str:
    """Output of a command in the bridge's container."""
    where = ("exec", "--namespace", "holdfast", "deployment/holdfast-bridge")
    return box.kubectl(*where, "--container", "bridge", "--", *argv)


def is_ready(pod: dict[str, Any]) -> bool:
    (container,) = pod["status"].get("containerStatuses") or [{"ready": False}]
    return bool(container["ready"])


def kube_nodes(box: Box) -> dict[str, Any]:
    """Every Kubernetes Node: its metadata, spec and conditions, without times and the server's own fields."""
    found = {}
    for node in json.loads(box.kubectl("get", "nodes", "--output=json"))["items"]:
        metadata = {k: v for k, v in node["metadata"].items() if k not in _OF_THE_SERVER}
        conditions = [
            {key: value for key, value in each.items() if key not in _TIMES}
            for each in node["status"]["conditions"]
        ]
        found[node["metadata"]["name"]] = {
            "metadata": metadata,
            "spec": node["spec"],
            "conditions": conditions,
        }
    return found


def remove_what_stays(box: Box) -> None:
    """Types the loop of the removal in install-bridge.md, which takes the bridge's own off every Node."""
    (loop,) = _REMOVAL.findall((TREE / "docs/howto/install-bridge.md").read_text())
    box.run(["sh", "-ec", loop], cwd="/")


def acts_without_a_token(box: Box, node: str, key: str, program: str) -> None:
    """The bridge drains in Slurm as its own user, and only its side-car has the cluster's key."""
    (pod,) = (one for one in pods_of(box, "holdfast-bridge") if "deletionTimestamp" not in one["metadata"])
    (side_car,) = pod["status"]["initContainerStatuses"]
    assert (side_car["name"], side_car["ready"], side_car["restartCount"]) == (program, True, 0)
    uid = box.kubectl(
        "exec", "--namespace=holdfast", pod["metadata"]["name"], "--container", program, "--", "sh", "-c",
        f"stat -L -c '%u %g %a' {key}; grep -E '^(Uid|CapEff)' /proc/1/status",
    ).split()  # fmt: skip
    assert uid == ["0", "2004", "440", "Uid:", *["2004"] * 4, "CapEff:", "0" * 16]
    with pytest.raises(SandboxError, match="No such file"):
        in_bridge(box, "cat", key)
    name = cluster.kube_name(box, node)
    box.kubectl("cordon", name)
    cluster.wait_for(lambda: cluster.drained(box, node), "the cordoned node drained")
    assert cluster.slurm_node(box, node)["reason_set_by_user"] == "holdfast"
    box.kubectl("uncordon", name)
    cluster.wait_for(lambda: cluster.in_service(box, node), "the node undrained")


@contextmanager
def storm(box: Box) -> Iterator[None]:
    """Short jobs of a user start and end all the time, and one runs on each node: no job may notice."""
    script = "--output=/dev/null", "--wrap"
    short = submitted(box, "--array=0-999%4", *script, "sleep 2")
    long = submitted(box, "--nodes=2", *script, "srun sleep 600")
    cluster.wait_for(lambda: "RUNNING" in jobs(box, long), "the long job running")
    yield
    cluster.wait_for(
        lambda: jobs(box, short).count("COMPLETED") > 10, "some jobs ended meanwhile", SLOW_S
    )
    box.run(["scancel", "--state=PENDING", short])
    cluster.wait_for(lambda: "RUNNING" not in jobs(box, short), "the short jobs ended")
    assert jobs(box, long) == ["RUNNING"], "started once, and still running"
    box.run(["scancel", long])
    ended = [state for state in jobs(box, short) if not state.startswith("CANCELLED")]
    assert set(ended) == {"COMPLETED"}


def submitted(box: Box, *words: str) -> str:
    return box.run(["sbatch", "--parsable", *words], user="alice").stdout.strip()


def jobs(box: Box, job: str) -> list[str]:
    """The state of every run of a job, or of each task of its array: a requeue adds one."""
    words = ["sacct", "--allocations", "--duplicates", "--noheader", "--parsable2"]
    return box.run([*words, "--format=State", "--jobs", job]).stdout.splitlines()
