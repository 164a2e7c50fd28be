"""Configuration files of the machines of a box that run pods, and of the two controllers beside the API server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.kube import ControlPlane, Daemon, pki
from testbed.pods.assets import PAUSE
from testbed.shape import (
    CONTROLLER_ADDRESS,
    INSIDE,
    POD_NETWORK,
    POD_PROGRAMS,
    Shape,
    address,
    kube_name,
    machine_nodes,
    pod_network,
)

CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KUBELET_SUBJECT = "/O=system:nodes/CN=system:node:{name}"

_SYSTEM_LABELS = "slurm.nebius.ai/workload=cpu"


def write(folder: Path, plane: ControlPlane, shape: Shape) -> None:
    """Files for every machine below ``folder``/pods/NODE, kubeconfigs of the controllers beside the plane's.

    ``folder``: the box's. Call ``plane.prepare`` first.
    """
    keys = plane.folder / "pki"
    for name in (CONTROLLER_MANAGER, SCHEDULER):
        user = pki.certificate(keys, name, f"/CN=system:{name}")
        _secret(plane.folder / f"{name}.kubeconfig", plane.kubeconfig(user))
    proxy = pki.certificate(keys, "kube-proxy", "/CN=system:kube-proxy")
    for node in machine_nodes(shape):
        kube = kube_name(node)
        own = folder / "pods" / kube
        own.mkdir(parents=True, exist_ok=True)
        user = pki.certificate(keys, kube, KUBELET_SUBJECT.format(name=kube))
        _secret(own / "kubelet.kubeconfig", plane.kubeconfig(user, CONTROLLER_ADDRESS))
        _secret(own / "proxy.kubeconfig", plane.kubeconfig(proxy, CONTROLLER_ADDRESS))
        (own / "kubelet.json").write_text(_json(_kubelet()))
        (own / "proxy.json").write_text(_json(_proxy(kube)))
        (own / "containerd.toml").write_text(_containerd())
        (own / "cni").mkdir(exist_ok=True)
        (own / "cni/10-box.conflist").write_text(_json(_cni(pod_network(node))))
        arguments = {"hostname-override": kube, "node-ip": address(node)}
        if node not in shape.node_names:
            arguments["node-labels"] = _SYSTEM_LABELS
        (own / "arguments.json").write_text(_json(arguments))


def controllers(plane: ControlPlane) -> tuple[Daemon, ...]:
    """Command lines of kube-controller-manager and kube-scheduler."""
    inside = plane.inside
    keys = inside / "pki"
    manager = (
        str(POD_PROGRAMS / CONTROLLER_MANAGER),
        f"--kubeconfig={inside / CONTROLLER_MANAGER}.kubeconfig",
        "--use-service-account-credentials",
        f"--root-ca-file={keys / pki.CA}",
        f"--service-account-private-key-file={keys / pki.TOKEN_KEY}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
    )
    scheduler = (
        str(POD_PROGRAMS / SCHEDULER),
        f"--kubeconfig={inside / SCHEDULER}.kubeconfig",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
    )
    return tuple(
        Daemon(name=name, argv=argv, log=inside / f"{name}.log")
        for name, argv in ((CONTROLLER_MANAGER, manager), (SCHEDULER, scheduler))
    )


def _kubelet() -> Mapping[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(INSIDE / "kube/pki" / pki.CA)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "resolvConf": "",
        # The disk is the host's: nothing is evicted for it.
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "4s",
        "volumeStatsAggPeriod": "-1s",
    }


def _proxy(name: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(INSIDE / "pods" / name / "proxy.kubeconfig")},
        "hostnameOverride": name,
        "mode": "nftables",
        "clusterCIDR": POD_NETWORK,
        "bindAddress": "0.0.0.0",  # noqa: S104 - a box has its own network
        "metricsBindAddress": "127.0.0.1:10249",
        "oomScoreAdj": 0,
        # 0: leave the host's limits as they are
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


def _containerd() -> str:
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE runc cannot lower it, and no container starts.
    return f"""\
version = 2
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
"""


def _cni(subnet: str) -> Mapping[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isDefaultGateway": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}]], "dataDir": "/run/cni"},
    }
    return {"cniVersion": "1.0.0", "name": "box", "plugins": [bridge]}


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1) + "\n"


def _secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
