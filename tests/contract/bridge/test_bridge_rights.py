"""What the bridge's token can and cannot write on a Node: RBAC and the admission policy together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from testbed.kube.local import ApiServer

from holdfast.cli.commands.render import render_text
from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.access import Right, needed, require
from k8s_bridge.kube.api import Edit, KubeConflict, KubeRefused
from k8s_bridge.kube.client import KubeApi
from k8s_bridge.model.ownership import BridgeRecord, Origin
from k8s_bridge.model.snapshot import Condition, KubeNode
from k8s_bridge.names import CONDITIONS
from tests.contract.waits import until_denied, until_in_force

NODE = KubeName("computeinstance-0")
PATH = f"/api/v1/nodes/{NODE}"
STATUS = f"{PATH}/status"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
AT = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
RECORD = BridgeRecord(
    origin=Origin.SLURM, reason="holdfast:XID79: x", by="root", at=AT, cordon=True
)
SINCE = "2026-01-01T00:00:00Z"
TAINTS = [
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
    {"key": "holdfast.dev/drained", "value": "kept", "effect": "NoExecute"},
]

Patch = tuple[str, str, dict[str, Any]]
FORBIDDEN: dict[str, Patch] = {
    "a label": (PATH, MERGE, {"metadata": {"labels": {"pool": "x"}}}),
    "a label through the status": (STATUS, MERGE, {"metadata": {"labels": {"pool": "x"}}}),
    "the end of a label": (PATH, MERGE, {"metadata": {"labels": {"kubernetes.io/hostname": None}}}),
    "a label with a prefix like ours": (PATH, MERGE, {"metadata": {"labels": {"holdfast.devx/a": "x"}}}),
    "an annotation": (PATH, MERGE, {"metadata": {"annotations": {"a": "x"}}}),
    "another annotation's value": (PATH, MERGE, {"metadata": {"annotations": {"theirs": "x"}}}),
    "the end of an annotation": (PATH, MERGE, {"metadata": {"annotations": {"theirs": None}}}),
    "a finalizer": (PATH, MERGE, {"metadata": {"finalizers": ["a.b/c"]}}),
    "an owner": (
        PATH, MERGE,
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}]}},
    ),
    "a pod network": (PATH, MERGE, {"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}),
    "the end of all taints": (PATH, MERGE, {"spec": {"taints": None}}),
    "a taint of others": (PATH, MERGE, {"spec": {"taints": [*TAINTS, {"key": "a", "effect": "NoSchedule"}]}}),
    "a taint that ends pods": (
        PATH, MERGE,
        {"spec": {"taints": [*TAINTS, {"key": "holdfast.dev/x", "effect": "NoExecute"}]}},
    ),
    "a person's taint with our key": (PATH, MERGE, {"spec": {"taints": TAINTS[:1]}}),
    "a condition of the kubelet": (
        STATUS, STRATEGIC, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    ),
    "a condition of others": (
        STATUS, STRATEGIC, {"status": {"conditions": [{"type": "HoldfastOther", "status": "True"}]}},
    ),
    "no condition at all": (STATUS, MERGE, {"status": {"conditions": None}}),
    "GPUs": (STATUS, MERGE, {"status": {"capacity": {"nvidia.com/gpu": "0"}}}),
    "addresses": (STATUS, MERGE, {"status": {"addresses": []}}),
    "images": (STATUS, MERGE, {"status": {"images": [{"names": ["a"], "sizeBytes": 1}]}}),
}  # fmt: skip


@pytest.fixture(scope="module")
def admin(api_server: ApiServer) -> Iterator[ApiServer]:
    """The API server, with a Node that has fields of other clients."""
    images = [{"names": [f"registry.example.org/{i}@sha256:{i:064}"]} for i in range(100)]
    notes = {"theirs": "kept", **{f"example.org/{i}": "x" * 200 for i in range(50)}}
    patch = {"metadata": {"annotations": notes}, "spec": {"taints": TAINTS}}
    api_server.kubectl("patch", "node", NODE, "--type=merge", "-p", json.dumps(patch))
    status = json.dumps({"status": {"images": images}})
    api_server.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", status)
    yield api_server
    reset(api_server, TAINTS[:1])
    gone = [{"type": kind, "$patch": "delete"} for kind in CONDITIONS]
    status = json.dumps({"status": {"conditions": gone}})
    api_server.kubectl("patch", "node", NODE, "--subresource=status", "-p", status)


@pytest.fixture(scope="module")
def kube(admin: ApiServer, bridge_policy: BridgeConfig) -> KubeApi:
    found = KubeApi(bridge_policy)
    until_in_force(found, PATH)
    return found


def reset(admin: ApiServer, taints: list[dict[str, str]]) -> None:
    spec = {"spec": {"taints": taints, "unschedulable": None}}
    admin.kubectl("patch", "node", NODE, "--type=merge", "-p", json.dumps(spec))


def from_rest(admin: ApiServer, kube: KubeApi, decide: Callable[[KubeNode], Edit]) -> None:
    reset(admin, TAINTS)
    kube.edit(kube.node(NODE), decide)


def node(admin: ApiServer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(admin.kubectl("get", "node", NODE, "-o", "json"))
    return found


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_bridge_cannot_write_anything_else(admin: ApiServer, kube: KubeApi, what: str) -> None:
    path, kind, patch = FORBIDDEN[what]
    before = node(admin)
    with pytest.raises(KubeRefused, match=r"403: .*'holdfast-bridge' denied request: of a Node's"):
        kube._patch(path, patch, kind)
    assert node(admin) == before


def test_what_is_the_bridges_it_writes(admin: ApiServer, kube: KubeApi) -> None:
    before = node(admin)
    kube.edit(kube.node(NODE), lambda _: Edit(unschedulable=True, taint="XID79", record=RECORD))
    rows = [
        Condition(type=t, status="True", reason="A", message="m", since=SINCE) for t in CONDITIONS
    ]
    kube.patch_status(NODE, rows, "drained")
    during = node(admin)
    assert during["spec"]["unschedulable"] is True
    assert {row["type"] for row in during["status"]["conditions"]} >= set(CONDITIONS)
    assert during["metadata"]["labels"]["holdfast.dev/slurm-state"] == "drained"
    kube.edit(kube.node(NODE), lambda _: Edit(unschedulable=False, untaint=True, forget=True))
    assert node(admin)["spec"] == before["spec"]


def test_others_are_not_bound_by_it(admin: ApiServer, kube: KubeApi) -> None:
    admin.kubectl("label", "node", NODE, "pool=x", "--overwrite")
    admin.kubectl("label", "node", NODE, "pool-")


@pytest.mark.parametrize(
    ("values", "edit"),
    [
        ({"cordon": "false"}, Edit(unschedulable=True)),
        ({"taint": "false"}, Edit(taint="XID79")),
    ],
    ids=str,
)
def test_what_the_site_does_not_allow_is_refused_and_read_as_a_refusal(
    admin: ApiServer, kube: KubeApi, values: dict[str, str], edit: Edit
) -> None:
    asked: list[str] = []

    def decide(fresh: KubeNode) -> Edit:
        asked.append(fresh.version)
        return edit

    admin.kubectl("apply", "-f", "-", stdin=render_text("rbac", **values))
    try:
        until_denied(lambda: from_rest(admin, kube, decide))
        asked.clear()
        with pytest.raises(KubeRefused, match="holdfast render rbac"):
            kube.edit(kube.node(NODE), decide)
        assert len(asked) == 1
        # The other one of the two still passes.
        other = Edit(taint="XID79") if "cordon" in values else Edit(unschedulable=True)
        kube.edit(kube.node(NODE), lambda _: other)
    finally:
        admin.kubectl("apply", "-f", "-", stdin=render_text("rbac"))
        reset(admin, TAINTS)


OTHERS_POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: somebodys}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: ["*"], resources: [nodes], operations: [UPDATE]}
  validations:
    - expression: "!has(object.spec.unschedulable)"
      message: nobody cordons here
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: somebodys}
spec: {policyName: somebodys, validationActions: [Deny]}
"""


def test_a_denial_with_422_is_a_rejection_and_a_late_patch_is_a_conflict(
    admin: ApiServer, kube: KubeApi
) -> None:
    """A policy that gives no reason is answered with 422, as a failed test in a JSON Patch is."""
    admin.kubectl("apply", "-f", "-", stdin=OTHERS_POLICY)
    try:
        asked: list[str] = []

        def decide(fresh: KubeNode) -> Edit:
            asked.append(fresh.version)
            return Edit(unschedulable=True)

        until_denied(lambda: from_rest(admin, kube, decide))
        asked.clear()
        with pytest.raises(KubeRefused, match=r"422: .*nobody cordons here"):
            kube.edit(kube.node(NODE), decide)
        assert len(asked) == 1
    finally:
        admin.kubectl("delete", "-f", "-", stdin=OTHERS_POLICY)

    def overtaken(fresh: KubeNode) -> Edit:
        admin.kubectl("label", "node", NODE, f"late={fresh.version}", "--overwrite")
        return Edit(taint="XID79")

    with pytest.raises(KubeConflict, match="written by others 5 times in a row"):
        kube.edit(kube.node(NODE), overtaken)
    admin.kubectl("label", "node", NODE, "late-")


def test_the_check_at_the_start_finds_every_right_and_knows_a_missing_one(
    kube: KubeApi, bridge_policy: BridgeConfig
) -> None:
    assert [right for right in needed(bridge_policy) if not kube.may(right)] == []
    require(kube, bridge_policy, "kubeconfig")
    for right in (Right("delete", "nodes"), Right("get", "secrets", namespace="default")):
        assert not kube.may(right)
