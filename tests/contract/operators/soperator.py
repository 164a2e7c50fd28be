"""Soperator's soperatorchecks: the program of Soperator that drains, undrains and deletes nodes.

It drains the workers of a Node with planned maintenance, on top of any reason, and undrains them afterwards. It
gives a Node whose worker is drained for ``[node_problem] …`` the condition ``HardwareIssuesSuspected``, which
leads to maintenance too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from charts.operators.objects import Kind, serve
from measure.bridge.many_nodes import ManySlurmNodes
from testbed.kube.local import ApiServer

from holdfast.vocabulary import SlurmName
from tests.contract.operators.manager import Manager, applied
from tests.unit.k8s_bridge.strangers import Strangers

USER = "root"
"""SlurmUser, and the user of its token."""
MAINTENANCE = "NebiusMaintenanceScheduled"
_SPACE, _CLUSTER = "soperator", "soperator"
_CRD = Kind(group="slurm.nebius.ai", version="v1", kind="SlurmCluster")


class Soperator:
    """The program, with pods of workers that the test binds to Nodes."""

    reasons = ("[compute_maintenance] ",)

    def __init__(
        self, program: Path, server: ApiServer, slurm: ManySlurmNodes, key: bytes, folder: Path
    ):
        self._server = server
        self.steps: Mapping[str, Callable[[Strangers], None]] = {
            "maintenance_begins": lambda world: _show(world, "True"),
            "maintenance_ends": lambda world: _show(world, "False"),
        }
        serve(server, _CRD)
        applied(server, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _SPACE}})
        applied(server, *_objects(key))
        self._manager = Manager(
            lambda metrics: _argv(program, metrics),
            server=server,
            slurm=slurm,
            folder=folder,
            rest=f"{_CLUSTER}-rest-svc.{_SPACE}",
            controller="soperatorchecks.slurmnodes",
        )
        self._manager.wait("no pass", lambda: self._manager.passes() > 1)

    def close(self) -> None:
        self._manager.close()

    def look(self) -> None:
        """It looks each second: the pass that has begun, and one more."""
        passes = self._manager.passes()
        self._manager.wait("no pass", lambda: self._manager.passes() > passes + 1)

    def place(self, worker: SlurmName, machine: str) -> None:
        labels = {"slurm.nebius.ai/worker": "true", "app.kubernetes.io/instance": _CLUSTER}
        meta = {"name": worker, "namespace": _SPACE, "labels": labels}
        spec = {"nodeName": machine, "containers": [{"name": "slurmd", "image": "slurmd"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        gone = ("delete", "pod", worker, "--grace-period=0", "--force", "--ignore-not-found")
        self._server.kubectl("-n", _SPACE, *gone)
        self._server.kubectl("create", "-f", "-", stdin=json.dumps(pod))


def _argv(program: Path, metrics: str) -> Sequence[str]:
    return [
        str(program),
        "-controllers=slurmapiclients,slurmnodes,k8snodes",
        "-requeue-after-slurm-nodes=1s",
        f"-metrics-bind-address={metrics}",
        "-health-probe-bind-address=0",
        "-log-level=info",
    ]


def _objects(key: bytes) -> list[dict[str, Any]]:
    here = {"namespace": _SPACE}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**here, "name": f"{_CLUSTER}-rest-jwt-key"},
            "stringData": {"rest_jwt.key": key.decode()},
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**here, "name": "default"}},
        {
            "apiVersion": f"{_CRD.group}/{_CRD.version}",
            "kind": _CRD.kind,
            "metadata": {**here, "name": _CLUSTER},
            "spec": {},
        },
    ]


def _show(world: Strangers, status: str) -> None:
    """Whether maintenance is planned for one of the Nodes."""
    _, machine = world._pair()
    if machine in world.kube.raw:
        world.kube.show(machine, MAINTENANCE, status)
