"""The bridge's rights in Kubernetes: roles, and policies that limit what it may write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.render.document import BOOL, NAME, REQUIRED, Document, Value
from k8s_bridge.names import CONDITIONS, PREFIX
from k8s_bridge.render.values import LABEL, NAMESPACE, PACKAGE, labels
from k8s_bridge.worker_pods.evictable import EVICTABLE
from k8s_bridge.workloads.kinds import KINDS, RESTART

ACCOUNT = "holdfast-bridge"
"""The bridge's ServiceAccount, as both templates have it."""

_WRITTEN_BY_THE_SERVER = ("labels", "annotations", "managedFields", "resourceVersion", "generation")
"""Fields of a Node's metadata that may differ: two have their own rules, the server sets the rest."""


def _rbac(values: Mapping[str, str]) -> Mapping[str, object]:
    return {
        "account": _account(values["namespace"]),
        "prefix": PREFIX,
        "conditions": _cel_list(CONDITIONS),
        "types": ", ".join(CONDITIONS),
        "kept": _cel_list(_WRITTEN_BY_THE_SERVER),
        "inlined": _inlined,
    }


def _inlined(expression: str, parts: Mapping[str, str]) -> str:
    """A CEL expression without variables: the conditions of a match have none."""
    for name, part in parts.items():
        expression = expression.replace(f"variables.{name}", f"({part})")
    return expression


def _account(namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{ACCOUNT}"


def _cel_list(names: Sequence[str]) -> str:
    """A list in CEL, the language of admission policies."""
    return f"[{', '.join(repr(name) for name in names)}]"


RBAC = Document(
    about="namespace, account and rights of the bridge",
    package=PACKAGE,
    template="rbac.yaml.j2",
    context=_rbac,
    values={
        "namespace": Value(NAME, "holdfast", "where the bridge runs"),
        "create_namespace": Value(BOOL, "true", "false: it exists, and belongs to something else"),
        "cordon": Value(BOOL, "true", "the bridge may cordon and uncordon"),
        "taint": Value(BOOL, "true", "… and set and remove its taint"),
    },
)


def _workloads_rbac(values: Mapping[str, str]) -> Mapping[str, object]:
    return {
        "account": _account(values["namespace"]),
        "annotation": RESTART,
        "kept": _cel_list([name for name in _WRITTEN_BY_THE_SERVER if name != "labels"]),
        "kinds": KINDS,
        "workload_namespaces": values["namespaces"].split(","),
    }


WORKLOADS_RBAC = Document(
    about="rights of the bridge in namespaces whose workloads it restarts",
    package=PACKAGE,
    template="workloads_rbac.yaml.j2",
    context=_workloads_rbac,
    values={
        "namespaces": Value(
            rf"{NAME}(,{NAME})*", REQUIRED, "those of bridge.workloads, with commas between"
        ),
        "namespace": NAMESPACE,
    },
)


def _worker_pods(values: Mapping[str, str]) -> Mapping[str, object]:
    return {
        "account": _account(values["namespace"]),
        "evictable": EVICTABLE,
        "kept": _cel_list([name for name in _WRITTEN_BY_THE_SERVER if name != "annotations"]),
        "selector": labels(values["workers"]),
    }


WORKER_PODS = Document(
    about="protects worker pods from eviction unless their node is drained and free",
    package=PACKAGE,
    template="worker_pods.yaml.j2",
    context=_worker_pods,
    values={
        "workers": Value(
            rf"{LABEL}(,{LABEL})*",
            "slurm.nebius.ai/worker=true",
            "NAME=VALUE,…: labels of Slurm's worker pods; Soperator's by default",
        ),
        "worker_namespace": Value(NAME, "soperator", "the namespace of these pods"),
        "namespace": NAMESPACE,
    },
)
