"""All that a stolen token can do, as the API server itself lists it: the bridge's, and one of an agent's pod."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from testbed.kube.local import ApiServer

from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.api import KubeError, KubeRefused
from k8s_bridge.kube.client import KubeApi
from tests.contract.waits import until_in_force

NODE = KubeName("computeinstance-0")
PATH = f"/api/v1/nodes/{NODE}"
STATUS = f"{PATH}/status"
MERGE = "application/merge-patch+json"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
NAMESPACES = ("default", "holdfast", "kube-system", "soperator")
ALLOWED = {
    "ObjectMeta": {"annotations", "labels"},
    "NodeSpec": {"taints", "unschedulable"},
    "NodeStatus": {"conditions"},
}
WRITTEN_BY_THE_SERVER = {"managedFields", "resourceVersion", "generation"}
Rights = set[tuple[str, str]]


@pytest.fixture
def bridge(bridge_policy: BridgeConfig) -> KubeApi:
    return KubeApi(bridge_policy)


@pytest.fixture
def agent(api_server: ApiServer, tmp_path: Path) -> Iterator[KubeApi]:
    """With the token that a pod of the agents' namespace would have. The agent's pod mounts none."""
    api_server.kubectl("create", "serviceaccount", "stolen", "-n", "holdfast")
    token = api_server.kubectl("create", "token", "stolen", "-n", "holdfast").strip()
    file = tmp_path / "kubeconfig"
    file.write_text(api_server.plane.kubeconfig({"token": token}))
    yield KubeApi(BridgeConfig(kubeconfig=str(file), timeout_s=5))
    api_server.kubectl("delete", "serviceaccount", "stolen", "-n", "holdfast")


def rights(kube: KubeApi, namespace: str) -> Rights:
    """(verb, group/resource) of every right, without those that each user has about itself."""
    answer = kube._call("POST", RULES, body={"spec": {"namespace": namespace}})["status"]
    assert not answer.get("incomplete"), answer
    found = set()
    for rule in answer["resourceRules"]:
        assert not rule.get("resourceNames"), rule
        for group in rule.get("apiGroups", ()):
            for resource in rule.get("resources", ()):
                found |= {(verb, f"{group}/{resource}") for verb in rule["verbs"]}
    return {
        (verb, what)
        for verb, what in found
        if not (verb == "create" and what.partition("/")[2].startswith("selfsubject"))
    }


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_bridges_token_has_these_rights_and_no_others(bridge: KubeApi, namespace: str) -> None:
    nodes = {(verb, "/nodes") for verb in ("get", "list", "watch", "patch")}
    events = {("create", "events.k8s.io/events")} if namespace == "default" else set()
    assert rights(bridge, namespace) == nodes | {("patch", "/nodes/status")} | events


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_token_of_an_agents_namespace_has_no_rights(agent: KubeApi, namespace: str) -> None:
    assert rights(agent, namespace) == set()
    with pytest.raises(KubeRefused, match="403"):
        agent._patch(PATH, {"spec": {"unschedulable": True}}, MERGE)


def test_of_all_fields_that_a_node_can_have_only_the_bridges_change(
    api_server: ApiServer, bridge: KubeApi
) -> None:
    """Each field that the API server's own schema names, also those of later releases."""
    schemas = json.loads(api_server.kubectl("get", "--raw", "/openapi/v3/api/v1"))["components"]
    by_name = {name.rpartition(".")[2]: row for name, row in schemas["schemas"].items()}
    until_in_force(bridge, PATH)
    before = comparable(api_server)
    tried = []
    for kind, part, path in (
        ("ObjectMeta", "metadata", PATH),
        ("ObjectMeta", "metadata", STATUS),
        ("NodeSpec", "spec", PATH),
        ("NodeSpec", "spec", STATUS),
        ("NodeStatus", "status", PATH),
        ("NodeStatus", "status", STATUS),
    ):
        for field, schema in sorted(by_name[kind]["properties"].items()):
            if field in ALLOWED[kind] | WRITTEN_BY_THE_SERVER:
                continue
            for value in (sample(schema, by_name), None):
                tried.append(f"{path} {part}.{field}")
                try:
                    bridge._patch(path, {part: {field: value}}, MERGE)
                except KubeError:
                    pass
                else:
                    assert comparable(api_server) == before, f"{tried[-1]} = {value!r}"
    assert comparable(api_server) == before
    assert len(tried) > 100, tried


def comparable(server: ApiServer) -> dict[str, Any]:
    node: dict[str, Any] = json.loads(server.kubectl("get", "--raw", PATH))
    for field in WRITTEN_BY_THE_SERVER:
        node["metadata"].pop(field, None)
    return node


def sample(schema: Mapping[str, Any], by_name: Mapping[str, Any], depth: int = 0) -> Any:
    """A value of that type."""
    for row in schema.get("allOf", ()):
        schema = {**schema, **row}
    if "$ref" in schema:
        schema = by_name[schema["$ref"].rpartition(".")[2]]
    kind = schema.get("type", "string")
    if kind == "object" and depth < 4:
        fields = schema.get("properties", {})
        made = {name: sample(row, by_name, depth + 1) for name, row in fields.items()}
        return made or {"example.org/x": sample(schema.get("additionalProperties", {}), by_name, 5)}
    if kind == "array":
        return [sample(schema["items"], by_name, depth + 1)]
    if schema.get("format") == "date-time":
        return "2026-01-01T00:00:00Z"
    return {"boolean": True, "integer": 1, "number": 1}.get(kind, "1")
