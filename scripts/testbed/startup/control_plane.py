"""The Kubernetes of a box: prepared before the box starts, started and provisioned in it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from testbed import kube
from testbed.errors import SandboxError
from testbed.inside.daemons import PLANE
from testbed.paths import cache
from testbed.pods import settings
from testbed.rootfs.layers import Say
from testbed.running_box import RunningBox
from testbed.shape import (
    CONTROLLER,
    CONTROLLER_ADDRESS,
    INSIDE,
    KUBE_PROGRAMS,
    USERS,
    Shape,
    address,
    kube_name,
    machine_nodes,
)

BRIDGE_KUBECONFIG = "/etc/holdfast/kubeconfig"
MACHINE = "machine"
"""The daemon that makes the controller a Kubernetes node, in a box with pods."""

_MACHINE = kube.Daemon(
    name=MACHINE,
    argv=(
        *("env", "PYTHONPATH=/opt/sandbox", "unshare", "--mount", "--propagation", "private"),
        *("/usr/bin/python3", "-u", "-m", "testbed.inside.machine", CONTROLLER),
    ),
    log=INSIDE / "kube/machine.log",
)
_NODES_READY_S = 240.0


def programs(say: Say) -> tuple[tuple[str, str], ...]:
    """(name, host path) of etcd, kube-apiserver and kubectl; built once, in minutes."""
    built = kube.binaries(cache(), say)
    return (
        ("etcd", str(built.etcd)),
        ("kube-apiserver", str(built.kube_apiserver)),
        ("kubectl", str(built.kubectl)),
    )


def prepare(folder: Path, shape: Shape) -> kube.ControlPlane:
    """Write certificates and the list of daemons into the box's folder."""
    plane = _plane(folder, shape)
    plane.prepare()
    daemons = plane.daemons()
    if shape.pods:
        settings.write(folder, plane, shape)
        daemons += (*settings.controllers(plane), _MACHINE)
    rows = [{"name": each.name, "argv": each.argv, "log": str(each.log)} for each in daemons]
    (folder / PLANE).write_text(json.dumps(rows, indent=1))
    return plane


def start(box: RunningBox, say: Callable[[str], None]) -> None:
    """Start etcd and kube-apiserver, create the cluster's objects and the bridge's kubeconfig."""
    plane = _plane(box.folder, box.shape)
    for daemon in plane.daemons():
        box.ask("start", daemon.name)
    kube.wait_ready(box.kubectl, alive=lambda: _all_run(box, plane))
    say("Kubernetes API server")
    if box.shape.pods:
        _start_pods(box, plane, say)
        return
    kube.provision(box.kubectl, workers(box.shape), bridge=box.shape.holdfast)
    if box.shape.holdfast:
        log_in(box)
    say(f"{box.shape.nodes} Nodes and worker Pods")


def log_in(box: RunningBox) -> None:
    """Write the bridge's kubeconfig. Its ServiceAccount must exist."""
    plane = _plane(box.folder, box.shape)
    login = box.path(BRIDGE_KUBECONFIG)
    login.parent.mkdir(parents=True, exist_ok=True)
    login.touch(mode=0o600)
    os.chown(login, USERS["holdfast"], USERS["holdfast"])
    login.write_text(kube.bridge_kubeconfig(box.kubectl, plane))


def _start_pods(box: RunningBox, plane: kube.ControlPlane, say: Callable[[str], None]) -> None:
    """Start the controllers and the controller's own kubelet; wait until every Node is ready."""
    # Each image is at its machines only (``testbed.inside.machine``).
    kube.provision_for_kubelets(
        box.kubectl, workers(box.shape), box.shape.debian_image, box.shape.bridge_image
    )
    for daemon in (*settings.controllers(plane), _MACHINE):
        box.ask("start", daemon.name)
    names = [kube_name(node) for node in machine_nodes(box.shape)]
    end = time.monotonic() + _NODES_READY_S
    ready: set[str] = set()
    while not ready.issuperset(names):
        if time.monotonic() > end:
            missing = ", ".join(sorted(set(names) - ready))
            raise SandboxError(
                f"not ready after {_NODES_READY_S:g} s: {missing}; see the logs in {box.folder}/pods and "
                f"{box.folder}/kube"
            )
        time.sleep(0.5)
        rows = json.loads(box.kubectl("get", "nodes", "--output=json"))["items"]
        ready = {row["metadata"]["name"] for row in rows if _is_ready(row)}
    say(f"{len(names)} Nodes that run pods")


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _all_run(box: RunningBox, plane: kube.ControlPlane) -> None:
    """Raises ``SandboxError`` when a daemon has exited: nothing restarts it, so waiting is useless."""
    running = box.ask("state")["daemons"]
    assert isinstance(running, dict)  # noqa: S101 - the supervisor's answer
    for daemon in plane.daemons():
        if daemon.name not in running:
            raise SandboxError(
                f"{daemon.name} ended at once; is its program in {cache() / 'kube'} intact? "
                f"See: scripts/sandbox logs --name {box.shape.name} {daemon.name}"
            )


def workers(shape: Shape) -> list[kube.Worker]:
    """One worker for each Slurm node."""
    return [
        kube.Worker(pod=node, node=kube_name(node), address=address(node))
        for node in shape.node_names
    ]


def _plane(folder: Path, shape: Shape) -> kube.ControlPlane:
    return kube.ControlPlane(
        folder=folder / "kube",
        inside=INSIDE / "kube",
        binaries=kube.Binaries.of(KUBE_PROGRAMS),
        address=CONTROLLER_ADDRESS,
        kubelets=bool(shape.pods),
    )
