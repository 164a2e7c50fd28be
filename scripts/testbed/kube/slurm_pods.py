"""What a cluster with kubelets has before Holdfast is deployed: Slurm in pods, as Soperator deploys it.

As in Soperator's jail, the files of slurmctld and slurmd are not those of their image: they are the
machine's own. The pods have the machine's address and processes too, so faults reach a daemon in a pod
as they reach one without.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.kube.manifests import (
    CLUSTER,
    SOPERATOR_NAMESPACE,
    WORKER_ACCOUNT,
    Manifest,
    Worker,
    namespace,
    node,
    pod,
    service_account,
)

FLUX_NAMESPACE = "flux-system"
CONTROLLER_SET = "controller"
"""The StatefulSet of slurmctld; its pod is controller-0."""

_ENTER_MACHINE = ("nsenter", "--target=1", "--mount", "--root", "--wd", "--uts", "--ipc", "--")
_MACHINE = {
    "hostPID": True,
    "hostNetwork": True,
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "terminationGracePeriodSeconds": 5,
}
_AS_ROOT = {"privileged": True, "runAsUser": 0, "runAsGroup": 0}


def objects_for_kubelets(
    workers: Sequence[Worker], worker_image: str, controller_image: str
) -> list[Manifest]:
    """Namespaces, Nodes without a status, and the pods of Slurm.

    The images: any with nsenter, each at the machines that have it.
    """
    nodes = [node(worker, "") for worker in workers]
    return [
        *(namespace(name) for name in (SOPERATOR_NAMESPACE, FLUX_NAMESPACE)),
        *(service_account(name) for name in ("default", WORKER_ACCOUNT)),
        *({key: part for key, part in each.items() if key != "status"} for each in nodes),
        _controller(controller_image),
        *(_pod_with_slurmd(worker, worker_image) for worker in workers),
    ]


def _controller(image: str) -> Manifest:
    """slurmctld in a StatefulSet. Soperator's liveness probe is left out: it would end the fault of a
    slurmctld that does not answer.
    """
    labels = {
        "app.kubernetes.io/name": "slurmcluster",
        "app.kubernetes.io/instance": CLUSTER,
        "app.kubernetes.io/component": CONTROLLER_SET,
        "app.kubernetes.io/part-of": "slurm-operator",
        "app.kubernetes.io/managed-by": "slurm-operator",
    }
    container = {
        "name": "slurmctld",
        "image": image,
        "imagePullPolicy": "Never",
        "command": [*_ENTER_MACHINE, "/opt/sandbox/start-slurmctld"],
        "ports": [{"name": "slurmctld", "containerPort": 6817}],
        "securityContext": _AS_ROOT,
    }
    spec = {
        **_MACHINE,
        "nodeSelector": {"slurm.nebius.ai/workload": "cpu"},
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": CONTROLLER_SET, "namespace": SOPERATOR_NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "serviceName": f"{CLUSTER}-controller-svc",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _pod_with_slurmd(worker: Worker, image: str) -> Manifest:
    """A worker Pod that runs. It asks for no GPUs: no device plugin runs."""
    manifest = pod(worker)
    (container,) = manifest["spec"]["containers"]
    slurmd = {
        **{name: value for name, value in container.items() if name != "resources"},
        "image": image,
        "imagePullPolicy": "Never",
        "command": [*_ENTER_MACHINE, "/opt/sandbox/start-slurmd", "-D", "-b"],
        "securityContext": _AS_ROOT,
    }
    spec = {**manifest["spec"], **_MACHINE, "containers": [slurmd]}
    return {**manifest, "spec": spec}
