"""The sandbox's Kubernetes: real etcd and kube-apiserver, with the objects of a Soperator cluster.

    binaries(cache, say)          etcd, kube-apiserver, kubectl: found or built, pinned by go.sum
    ControlPlane(...).prepare()   certificates, audit policy, kubeconfig of the admin, in one folder
    ControlPlane(...).daemons()   argv and log of etcd and kube-apiserver, in start order
    wait_ready(kubectl)           waits until /readyz returns ok
    provision(kubectl, workers)   creates namespaces, Nodes, worker Pods and the bridge's rights
    provision_for_kubelets(…)     the same for machines with a kubelet, without the bridge's rights
    bridge_kubeconfig(...)        the bridge's kubeconfig with a ServiceAccount token

``kubectl`` is a callable that runs kubectl (``testbed.kube.plane.Kubectl``). All but ``binaries``
use only the standard library, so programs inside a box may import them too.
"""

from testbed.kube.manifests import Worker
from testbed.kube.plane import ControlPlane, Daemon, Kubectl, kubectl_argv, wait_ready
from testbed.kube.programs import Binaries, binaries, is_built
from testbed.kube.provisioning import bridge_kubeconfig, provision, provision_for_kubelets

__all__ = [
    "Binaries",
    "ControlPlane",
    "Daemon",
    "Kubectl",
    "Worker",
    "binaries",
    "bridge_kubeconfig",
    "is_built",
    "kubectl_argv",
    "provision",
    "provision_for_kubelets",
    "wait_ready",
]
