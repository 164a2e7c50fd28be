"""The sandbox's Kubernetes: real etcd and kube-apiserver, with the objects of a Soperator cluster.

    binaries(cache, say)          etcd, kube-apiserver, kubectl: found or built, pinned by go.sum
    ControlPlane(...).prepare()   certificates, audit policy, kubeconfig of the admin, in one folder
    ControlPlane(...).daemons()   what to run, in this order: argv and log of etcd and
    kube-apiserver wait_ready(kubectl)           until /readyz says ok provision(kubectl, workers)
    namespaces, Nodes, worker Pods, the bridge's rights bridge_kubeconfig(...)        what the
    bridge logs in with: a ServiceAccount's token

``kubectl`` is whatever runs kubectl in the right place (``testbed.kube.plane.Kubectl``). All but
``binaries`` need nothing beyond the standard library, so a daemon's supervisor may import them
inside a box too.
"""

from testbed.kube.manifests import Worker
from testbed.kube.plane import ControlPlane, Daemon, Kubectl, kubectl_argv, wait_ready
from testbed.kube.programs import Binaries, binaries, is_built
from testbed.kube.provisioning import bridge_kubeconfig, provision

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
    "wait_ready",
]
