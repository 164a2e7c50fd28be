"""Slinky's slurm-operator: its manager drains and undrains the Slurm nodes of pods whose Nodes are cordoned."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from charts.operators.objects import Kind, serve
from measure.bridge.many_nodes import ManySlurmNodes
from testbed.kube.local import ApiServer, KubectlError

from holdfast.vocabulary import SlurmName
from tests.contract.operators.manager import Manager, applied
from tests.unit.k8s_bridge.strangers import WORKERS, Strangers

USER = "slurm"
"""SlurmUser, and the user of its token."""
_SPACE, _CLUSTER = "slurm", "slurm"
_GROUP, _VERSION = "slinky.slurm.net", "v1beta1"
_KINDS = ("Accounting", "Controller", "LoginSet", "NodeSet", "RestApi", "Token")


class Slinky:
    """The manager, with a NodeSet ``worker`` whose pods the test binds to Nodes, as no scheduler runs."""

    reasons = ("slurm-operator: ",)
    steps: Mapping[str, Callable[[Strangers], None]] = MappingProxyType({})

    def __init__(
        self, program: Path, server: ApiServer, slurm: ManySlurmNodes, key: bytes, folder: Path
    ):
        self._server, self._looks = server, itertools.count()
        serve(server, *(Kind(group=_GROUP, version=_VERSION, kind=kind) for kind in _KINDS))
        applied(server, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _SPACE}})
        applied(server, *_objects(key))
        self._manager = Manager(
            lambda metrics: _argv(program, metrics),
            server=server,
            slurm=slurm,
            folder=folder,
            rest=f"{_CLUSTER}-restapi.{_SPACE}",
            controller="nodeset-controller",
        )
        for i in range(WORKERS):
            self._manager.wait("no pod", partial(self._pod, f"worker-{i}"))

    def close(self) -> None:
        self._manager.close()

    def look(self) -> None:
        passes = self._manager.passes()
        look = f"holdfast-test/look={next(self._looks)}"
        self._kubectl("annotate", "nodeset", "worker", "--overwrite", look)
        self._manager.wait_passes(passes)

    def place(self, worker: SlurmName, machine: str) -> None:
        pod = self._pod(worker)
        if pod and pod["spec"].get("nodeName") not in (None, machine):
            self._kubectl("delete", "pod", worker, "--grace-period=0", "--force")
            old = pod["metadata"]["uid"]
            self._manager.wait("no new pod", lambda: self._uid(worker) not in ("", old))
            pod = self._pod(worker)
        if pod and not pod["spec"].get("nodeName"):
            self._bind(worker, machine)

    def _bind(self, worker: SlurmName, machine: str) -> None:
        meta = {"name": worker, "namespace": _SPACE}
        target = {"apiVersion": "v1", "kind": "Node", "name": machine}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        path = f"/api/v1/namespaces/{_SPACE}/pods/{worker}/binding"
        self._kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))
        ready = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")]
        status = json.dumps({"status": {"phase": "Running", "conditions": ready}})
        self._kubectl("patch", "pod", worker, "--subresource=status", "-p", status)

    def _uid(self, worker: SlurmName) -> str:
        return str(self._pod(worker).get("metadata", {}).get("uid", ""))

    def _pod(self, name: str) -> dict[str, Any]:
        """Empty: there is none."""
        try:
            found: dict[str, Any] = json.loads(self._kubectl("get", "pod", name, "-o", "json"))
        except KubectlError:
            return {}
        return found

    def _kubectl(self, *args: str, stdin: str | None = None) -> str:
        return self._server.kubectl("-n", _SPACE, *args, stdin=stdin)


def _argv(program: Path, metrics: str) -> Sequence[str]:
    return [str(program), f"--metrics-addr={metrics}", "--health-addr=0", f"--namespaces={_SPACE}"]


def _objects(key: bytes) -> list[dict[str, Any]]:
    """A cluster with as many workers as the histories have. The key is that of the tokens."""
    secret = {"name": "slurm-auth-jwt", "key": "jwt.key"}
    slurm_key = {"name": "slurm-auth-slurm", "key": "slurm.key"}
    here = {"namespace": _SPACE}
    external = {"host": "localhost", "port": 6817}
    keys = {"slurmKeyRef": slurm_key, "jwtKeyRef": secret, "externalConfig": external}
    of_cluster = {"controllerRef": {"name": _CLUSTER}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**here, "name": ref["name"]},
            "stringData": {ref["key"]: key.decode()},
        }
        for ref in (secret, slurm_key)
    ] + [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**here, "name": "default"}},
        _object("Controller", _CLUSTER, {"external": True, **keys}),
        _object("RestApi", _CLUSTER, {**of_cluster, "slurmrestd": {"image": "slurmrestd"}}),
        _object(
            "NodeSet",
            "worker",
            {
                **of_cluster,
                "replicas": WORKERS,
                "scalingMode": "StatefulSet",
                "slurmd": {"image": "slurmd"},
                "logfile": {"image": "logfile"},
                "template": {"spec": {"hostname": "worker-"}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            },
        ),
    ]


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": name, "namespace": _SPACE}
    return {"apiVersion": f"{_GROUP}/{_VERSION}", "kind": kind, "metadata": meta, "spec": spec}
