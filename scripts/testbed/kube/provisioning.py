"""Creates a cluster's objects, the bridge's rights and its kubeconfig, through the API only."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from datetime import datetime, timezone

from testbed.errors import SandboxError
from testbed.kube.manifests import Worker, as_list, objects, pod_status
from testbed.kube.plane import ControlPlane, Kubectl
from testbed.kube.slurm_pods import objects_for_kubelets

BRIDGE_NAMESPACE = "holdfast"
BRIDGE_ACCOUNT = "holdfast-bridge"
"""ServiceAccount of the bridge; its own manifest (k8s_bridge/templates/rbac.yaml.j2) makes both."""

_FIELD_MANAGER = "--field-manager=kubelet"


def provision(
    kubectl: Kubectl,
    workers: Sequence[Worker],
    now: datetime | None = None,
    *,
    bridge: bool = True,
) -> None:
    """Create the objects of a Soperator cluster; existing ones are brought to the same state.

    ``bridge``: also its rights.
    """
    stamp = (now or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%SZ")
    _apply(kubectl, json.dumps(as_list(objects(workers, stamp))))
    statuses = as_list([pod_status(worker, stamp) for worker in workers])
    _apply(kubectl, json.dumps(statuses), "--subresource=status")
    if bridge:
        grant_bridge(kubectl)


def provision_for_kubelets(
    kubectl: Kubectl, workers: Sequence[Worker], worker_image: str, controller_image: str
) -> None:
    """Create the namespaces, the Nodes as their node group labels them, and the pods of Slurm.

    Their kubelets do the rest.
    """
    objects = objects_for_kubelets(workers, worker_image, controller_image)
    _apply(kubectl, json.dumps(as_list(objects)))


def grant_bridge(kubectl: Kubectl) -> None:
    """Apply the bridge's manifest, as an admin does."""
    kubectl("apply", "-f", "-", stdin=bridge_manifest())


def bridge_manifest() -> str:
    """The output of ``holdfast render rbac``."""
    try:
        text = importlib.import_module("k8s_bridge.render.documents").render_text("rbac")
    except ModuleNotFoundError as error:
        problem = f"cannot render the bridge's rights (no module {error.name})"
        raise SandboxError(f"{problem}; run this with the checkout's .venv/bin/python") from None
    if not isinstance(text, str) or f"name: {BRIDGE_ACCOUNT}" not in text:
        raise SandboxError(f"k8s_bridge's rbac manifest has no ServiceAccount {BRIDGE_ACCOUNT}")
    return text


def bridge_kubeconfig(kubectl: Kubectl, plane: ControlPlane) -> str:
    """The bridge's kubeconfig, with a token of its ServiceAccount, issued by TokenRequest.

    A kubelet renews a Pod's token; this one lasts longer than any box.
    """
    token = kubectl(
        "create", "token", BRIDGE_ACCOUNT, f"--namespace={BRIDGE_NAMESPACE}", "--duration=8760h"
    )
    return plane.kubeconfig({"token": token.strip()})


def _apply(kubectl: Kubectl, manifest: str, *options: str) -> None:
    kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        _FIELD_MANAGER,
        *options,
        "-f",
        "-",
        stdin=manifest,
    )
