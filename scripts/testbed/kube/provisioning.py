"""Fills an API server with a cluster, through the API only; the bridge's rights and login too."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from datetime import datetime, timezone

from testbed.errors import SandboxError
from testbed.kube.manifests import Worker, as_list, objects, pod_status
from testbed.kube.plane import ControlPlane, Kubectl

BRIDGE_NAMESPACE = "holdfast"
BRIDGE_ACCOUNT = "holdfast-bridge"
"""ServiceAccount of the bridge; its own manifest (k8s_bridge/templates/rbac.yaml.j2) makes both."""

_FIELD_MANAGER = "--field-manager=kubelet"


def provision(kubectl: Kubectl, workers: Sequence[Worker], now: datetime | None = None) -> None:
    """Creates what a Soperator cluster has; brings what is there already to the same state."""
    stamp = (now or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%SZ")
    _apply(kubectl, json.dumps(as_list(objects(workers, stamp))))
    statuses = as_list([pod_status(worker, stamp) for worker in workers])
    _apply(kubectl, json.dumps(statuses), "--subresource=status")
    grant_bridge(kubectl)


def grant_bridge(kubectl: Kubectl) -> None:
    """Applies the bridge's own manifest, exactly as an admin would."""
    kubectl("apply", "-f", "-", stdin=bridge_manifest())


def bridge_manifest() -> str:
    """What ``holdfast render rbac`` prints."""
    try:
        text = importlib.import_module("k8s_bridge.render").render_text("rbac")
    except ModuleNotFoundError as error:
        problem = f"cannot render the bridge's rights (no module {error.name})"
        raise SandboxError(f"{problem}; run this with the checkout's .venv/bin/python") from None
    if not isinstance(text, str) or f"name: {BRIDGE_ACCOUNT}" not in text:
        raise SandboxError(f"k8s_bridge's rbac manifest has no ServiceAccount {BRIDGE_ACCOUNT}")
    return text


def bridge_kubeconfig(kubectl: Kubectl, plane: ControlPlane) -> str:
    """What the bridge logs in with: a token of its ServiceAccount, issued by TokenRequest.

    A pod's token is renewed by its kubelet; this one lasts as long as any box does.
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
