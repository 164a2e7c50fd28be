"""The bridge's documents, by the name that ``holdfast render`` has for each."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.render.document import Document
from k8s_bridge.render.pod import DEPLOYMENT, NETWORK_POLICY, OFF
from k8s_bridge.render.rights import RBAC, WORKER_PODS, WORKLOADS_RBAC

DOCUMENTS: Mapping[str, Document] = {
    "rbac": RBAC,
    "workloads-rbac": WORKLOADS_RBAC,
    "worker-pods": WORKER_PODS,
    "deployment": DEPLOYMENT,
    "network-policy": NETWORK_POLICY,
    "off": OFF,
}


def render_text(what: str, **values: str) -> str:
    """One of the bridge's documents (``holdfast.cli.commands.render`` lists all documents)."""
    return DOCUMENTS[what].text(what, values)
