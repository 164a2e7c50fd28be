"""The Kubernetes of a box: prepared before the box starts, started and provisioned in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from testbed import kube
from testbed.errors import SandboxError
from testbed.inside.daemons import PLANE
from testbed.paths import cache
from testbed.rootfs.layers import Say
from testbed.running_box import RunningBox
from testbed.shape import (
    CONTROLLER_ADDRESS,
    INSIDE,
    KUBE_PROGRAMS,
    USERS,
    Shape,
    address,
    kube_name,
)

BRIDGE_KUBECONFIG = "/etc/holdfast/kubeconfig"


def programs(say: Say) -> tuple[tuple[str, str], ...]:
    """(name, host path) of etcd, kube-apiserver and kubectl; built once, in minutes."""
    built = kube.binaries(cache(), say)
    return (
        ("etcd", str(built.etcd)),
        ("kube-apiserver", str(built.kube_apiserver)),
        ("kubectl", str(built.kubectl)),
    )


def prepare(folder: Path) -> kube.ControlPlane:
    """Write certificates and the list of daemons into the box's folder."""
    plane = _plane(folder)
    plane.prepare()
    rows = [
        {"name": each.name, "argv": each.argv, "log": str(each.log)} for each in plane.daemons()
    ]
    (folder / PLANE).write_text(json.dumps(rows, indent=1))
    return plane


def start(box: RunningBox, say: Callable[[str], None]) -> None:
    """Start etcd and kube-apiserver, create the cluster's objects and the bridge's kubeconfig."""
    plane = _plane(box.folder)
    for daemon in plane.daemons():
        box.ask("start", daemon.name)
    kube.wait_ready(box.kubectl, alive=lambda: _all_run(box, plane))
    say("Kubernetes API server")
    try:
        kube.provision(box.kubectl, workers(box.shape))
    except SandboxError as error:
        if box.shape.bridge:
            raise
        say(f"no bridge: {error}")
        return
    login = box.path(BRIDGE_KUBECONFIG)
    login.parent.mkdir(parents=True, exist_ok=True)
    login.touch(mode=0o600)
    os.chown(login, USERS["holdfast"], USERS["holdfast"])
    login.write_text(kube.bridge_kubeconfig(box.kubectl, plane))
    say(f"{box.shape.nodes} Nodes and worker Pods")


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


def _plane(folder: Path) -> kube.ControlPlane:
    return kube.ControlPlane(
        folder=folder / "kube",
        inside=INSIDE / "kube",
        binaries=kube.Binaries.of(KUBE_PROGRAMS),
        address=CONTROLLER_ADDRESS,
    )
