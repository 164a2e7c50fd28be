"""The Kubernetes objects of a Soperator cluster, as its node groups and operator create them.

Sources: labels and taint of the Nodes from the Terraform recipe (nebius-solutions-library,
soperator/modules/k8s/ k8s_ng_workers_v2.tf and modules/labels), labels of the worker Pod from
Soperator (internal/render/common/label.go, internal/consts/label.go), size of a Node from the
preset 8gpu-128vcpu-1600gb of the platform gpu-h100-sxm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SOPERATOR_NAMESPACE = "soperator"
CLUSTER = "soperator"
"""Name of the SlurmCluster, fixed by the recipe."""

NODESET = "worker"
WORKER_ACCOUNT = f"{CLUSTER}-worker-sa"

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One Slurm node: its Pod (of the same name), the Kubernetes Node under it, its address."""

    pod: str
    node: str
    address: str
    gpus: int = 8


def objects(workers: Sequence[Worker], now: str) -> list[Manifest]:
    """All objects but the rights, in order of dependency: namespace, accounts, Nodes, Pods.

    ``now``: RFC 3339, as in Kubernetes.
    """
    return [
        namespace(SOPERATOR_NAMESPACE),
        *(service_account(name) for name in ("default", WORKER_ACCOUNT)),
        *(node(worker, now) for worker in workers),
        *(pod(worker) for worker in workers),
    ]


def as_list(items: Sequence[Manifest]) -> Manifest:
    """One document, for one call of kubectl."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def node(worker: Worker, now: str) -> Manifest:
    """A healthy GPU Node as its kubelet registers it."""
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": worker.node,
        "node.kubernetes.io/instance-type": "gpu-h100-sxm",
        "node.kubernetes.io/exclude-from-external-load-balancers": "",
        "nebius.com/gpu": "true",
        "nebius.com/resource-preset": "8gpu-128vcpu-1600gb",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(worker.gpus),
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "slurm.nebius.ai/jail": "true",
        "slurm.nebius.ai/nodeset": NODESET,
        "slurm.nebius.ai/worker": "true",
        "slurm.nebius.ai/nodeset-name": NODESET,
        "slurm.nebius.ai/workload": "gpu",
        "topology.kubernetes.io/region": "eu-north1",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": worker.node, "labels": labels},
        "spec": {
            "providerID": f"nebius://{worker.node}",
            "taints": [
                {"key": "nvidia.com/gpu", "value": str(worker.gpus), "effect": "NoSchedule"}
            ],
        },
        "status": _node_status(worker, now),
    }


def _node_status(worker: Worker, now: str) -> Manifest:
    size = {
        "cpu": "128",
        "memory": "1613824Mi",
        "ephemeral-storage": "536870912Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": "110",
        "nvidia.com/gpu": str(worker.gpus),
    }
    return {
        "capacity": size,
        "allocatable": {
            **size,
            "cpu": "127900m",
            "memory": "1605632Mi",
            "ephemeral-storage": "483183820Ki",
        },
        "addresses": [
            {"type": "InternalIP", "address": worker.address},
            {"type": "Hostname", "address": worker.node},
        ],
        "conditions": _conditions(now),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "osImage": "Ubuntu 24.04.2 LTS",
            "kernelVersion": "6.11.0-29-generic",
            "containerRuntimeVersion": "containerd://1.7.27",
            "kubeletVersion": "v1.34.2",
            "kubeProxyVersion": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }


def _conditions(now: str) -> list[Manifest]:
    rows = (
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status, reason, message in rows
    ]


def pod(worker: Worker) -> Manifest:
    """A worker Pod, bound to its Node. The API server drops the status of a new Pod:
    ``pod_status`` follows.
    """
    labels = {
        "app.kubernetes.io/name": "slurmcluster",
        "app.kubernetes.io/instance": CLUSTER,
        "app.kubernetes.io/component": "nodeset",
        "app.kubernetes.io/part-of": "slurm-operator",
        "app.kubernetes.io/managed-by": "slurm-operator",
        "slurm.nebius.ai/nodeset": NODESET,
        "slurm.nebius.ai/worker": "true",
        "apps.kubernetes.io/pod-index": worker.pod.rpartition("-")[2],
        "statefulset.kubernetes.io/pod-name": worker.pod,
    }
    container = {
        "name": "slurmd",
        # never pulled: no kubelet runs, and slurmd runs in the sandbox's namespaces
        "image": "soperator/worker_slurmd:24.11",
        "resources": {"limits": {"nvidia.com/gpu": str(worker.gpus)}},
        "env": [{"name": "INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "securityContext": {"privileged": True},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": worker.pod,
            "namespace": SOPERATOR_NAMESPACE,
            "labels": labels,
            "annotations": {"kubectl.kubernetes.io/default-container": "slurmd"},
        },
        "spec": {
            "nodeName": worker.node,
            "hostname": worker.pod,
            "serviceAccountName": WORKER_ACCOUNT,
            "containers": [container],
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
            ],
        },
    }


def pod_status(worker: Worker, now: str) -> Manifest:
    """What the kubelet reports of a worker Pod once slurmd runs; for the status subresource."""
    ready = [
        {"type": kind, "status": "True", "lastTransitionTime": now}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": worker.pod, "namespace": SOPERATOR_NAMESPACE},
        "status": {
            "phase": "Running",
            "conditions": ready,
            "podIP": worker.address,
            "podIPs": [{"ip": worker.address}],
            "hostIP": worker.address,
            "startTime": now,
            "containerStatuses": [
                {
                    "name": "slurmd",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "image": "soperator/worker_slurmd:24.11",
                    "imageID": "",
                    "state": {"running": {"startedAt": now}},
                }
            ],
        },
    }


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def service_account(name: str) -> Manifest:
    # A controller creates `default` in every namespace; none runs here, and Pods are refused
    # without their account.
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": SOPERATOR_NAMESPACE},
    }
