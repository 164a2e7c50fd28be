"""The bridge's own documents."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands.config import main as config_command
from holdfast.cli.commands.render import render_text
from holdfast.config.kill_switch_files import ALL
from holdfast.config.load import load_section
from holdfast.config.schema import SlurmConfig
from holdfast.errors import UsageError
from k8s_bridge.config import SWITCH, BridgeConfig, Join
from k8s_bridge.names import CONDITIONS

IMAGE = f"registry.example/holdfast@sha256:{'0' * 64}"


def test_rights_are_exactly_those_used() -> None:
    documents = list(yaml.safe_load_all(render_text("rbac")))
    rules = [rule for document in documents for rule in document.get("rules", ())]
    granted = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    nodes = {("", "nodes", verb) for verb in ("get", "list", "watch", "patch")}
    told = {("", "nodes/status", "patch"), ("events.k8s.io", "events", "create")}
    assert granted == nodes | told


def test_the_deployment_is_yaml_with_the_values() -> None:
    text = render_text("deployment", image=IMAGE, cordon="false")
    config, deployment = yaml.safe_load_all(text)
    assert yaml.safe_load(config["data"]["holdfast.yaml"])["bridge"]["cordon"] is False
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == IMAGE
    assert pod["serviceAccountName"] == "holdfast-bridge"
    assert "{{" not in text


def test_the_account_is_where_the_deployment_looks_for_it() -> None:
    objects = [*yaml.safe_load_all(render_text("rbac", namespace="slurm"))]
    accounts = [one for one in objects if one["kind"] == "ServiceAccount"]
    assert [one["metadata"]["namespace"] for one in accounts] == ["slurm"]
    bound = [subject for one in objects for subject in one.get("subjects", ())]
    assert {subject["namespace"] for subject in bound} == {"slurm"}
    assert objects[0]["metadata"]["name"] == "slurm", "the Namespace itself"


def test_soperators_worker_pods_are_selected_by_default() -> None:
    """scripts/hold_against wrote down what labels Soperator's manager gives them."""
    file = Path(__file__).parents[3] / "data/deploy/soperator.json"
    labels = json.loads(file.read_text())["manager"]["worker_labels"]
    budget = next(iter(yaml.safe_load_all(render_text("worker-pods"))))
    selected = budget["spec"]["selector"]["matchLabels"]
    assert selected
    assert selected.items() <= labels.items()


def test_a_namespace_of_somebody_else_is_not_among_the_objects() -> None:
    """``kubectl delete`` of the document would delete it with all that is in it."""
    with_it = [*yaml.safe_load_all(render_text("rbac", namespace="slurm"))]
    without = [
        *yaml.safe_load_all(render_text("rbac", namespace="slurm", create_namespace="false"))
    ]
    assert [one["kind"] for one in with_it if one not in without] == ["Namespace"]
    assert all(one in with_it for one in without)


def test_slurm_is_asked_with_a_token() -> None:
    text = render_text("deployment", image=IMAGE, auth_path="/etc/auth")
    config, deployment = yaml.safe_load_all(text)
    section = yaml.safe_load(config["data"]["holdfast.yaml"])["bridge"]
    assert Path(section["slurm_token_file"]) == Path("/etc/auth/token")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["slurm-auth"] == "/etc/auth"


@pytest.mark.parametrize(
    ("auth", "program", "socket"),
    [("munge", "munged", "/run/munge"), ("slurm", "sackd", "/run/slurm")],
)
def test_only_the_side_car_has_the_clusters_key(auth: str, program: str, socket: str) -> None:
    """Slurm's commands ask its socket; with the key the bridge could act as any user."""
    text = render_text("deployment", image=IMAGE, auth=auth)
    config, deployment = yaml.safe_load_all(text)
    assert yaml.safe_load(config["data"]["holdfast.yaml"])["bridge"]["slurm_token_file"] == ""
    pod = deployment["spec"]["template"]["spec"]
    (side_car,) = pod["initContainers"]
    assert (side_car["name"], side_car["command"][0]) == (program, program)
    assert (side_car["image"], side_car["restartPolicy"]) == (IMAGE, "Always")
    (bridge,) = pod["containers"]
    assert side_car["securityContext"] == bridge["securityContext"]
    mounts = {mount["name"]: mount for mount in bridge["volumeMounts"]}
    assert "slurm-auth" not in mounts
    assert mounts["auth-socket"]["mountPath"] == socket
    assert {"slurm-auth", "auth-socket"} <= {one["name"] for one in side_car["volumeMounts"]}
    assert f"/etc/slurm-auth/{auth}.key" in text


def test_a_token_needs_no_side_car() -> None:
    _, deployment = yaml.safe_load_all(render_text("deployment", image=IMAGE))
    pod = deployment["spec"]["template"]["spec"]
    assert "initContainers" not in pod
    assert "auth-socket" not in {volume["name"] for volume in pod["volumes"]}


def test_the_side_car_may_have_another_image() -> None:
    other = IMAGE.replace("holdfast", "munge")
    text = render_text("deployment", image=IMAGE, auth="munge", auth_image=other)
    _, deployment = yaml.safe_load_all(text)
    pod = deployment["spec"]["template"]["spec"]
    assert [one["image"] for one in (*pod["initContainers"], *pod["containers"])] == [other, IMAGE]


@pytest.mark.parametrize("auth", ["munge", "slurm"])
def test_slurmrestd_takes_a_token(auth: str) -> None:
    rest = {"adapter": "rest", "rest_url": "http://slurmrestd:6820"}
    with pytest.raises(UsageError, match="adapter=rest needs auth=token"):
        render_text("deployment", image=IMAGE, auth=auth, **rest)


@pytest.mark.parametrize("image", ["a/b:1", "a/b", "a/b@sha256:0", f"a/b@sha512:{'0' * 64}"])
def test_an_image_without_a_digest_is_not_rendered(image: str) -> None:
    with pytest.raises(UsageError, match="image: must be an image with its digest"):
        render_text("deployment", image=image)


def policy(**values: str) -> dict[str, Any]:
    objects = yaml.safe_load_all(render_text("rbac", **values))
    (found,) = (one["spec"] for one in objects if one["kind"] == "ValidatingAdmissionPolicy")
    assert isinstance(found, dict)
    return found


def test_the_admission_policy_denies_and_is_about_the_bridges_account_alone() -> None:
    found = policy(namespace="slurm")
    assert found["failurePolicy"] == "Fail"
    (condition,) = (one["expression"] for one in found["matchConditions"])
    account = 'request.userInfo.username == "system:serviceaccount:slurm:holdfast-bridge"'
    assert condition.startswith(f"{account} && !(")
    assert condition.endswith(")")
    assert {one["reason"] for one in found["validations"]} == {"Forbidden"}
    bindings = [
        one["spec"]
        for one in yaml.safe_load_all(render_text("rbac"))
        if one["kind"] == "ValidatingAdmissionPolicyBinding"
    ]
    assert bindings == [{"policyName": "holdfast-bridge", "validationActions": ["Deny"]}]


def test_a_write_that_breaks_any_rule_meets_the_condition_of_the_policy() -> None:
    """The API server looks at the validations only then."""
    found = policy(cordon="false")
    (condition,) = (one["expression"] for one in found["matchConditions"])
    checks = [one["expression"] for one in found["validations"]]
    for variable in found["variables"]:
        inlined = f"({variable['expression']})"
        checks = [check.replace(f"variables.{variable['name']}", inlined) for check in checks]
    assert len(checks) == 8
    assert condition.endswith(f" && !( ({') && ('.join(checks)}))")
    assert "variables" not in condition


def test_every_condition_of_ours_is_in_the_policy() -> None:
    (conditions,) = (
        one["expression"]
        for one in policy()["validations"]
        if "variables.conditions" in one["expression"]
    )
    assert all(f"'{kind}'" in conditions for kind in CONDITIONS)


def test_a_pods_bridge_has_its_kill_switch_too() -> None:
    _, deployment = yaml.safe_load_all(render_text("deployment", image=IMAGE))
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    sources = next(one for one in volumes if one["name"] == "config")["projected"]["sources"]
    switches = sources[1]["configMap"]
    assert switches["optional"] is True
    assert {item["path"] for item in switches["items"]} == {f"off/{SWITCH}", f"off/{ALL}"}


@pytest.mark.parametrize("poll_s", ["0", "0.05", "301", "300.5", "1e3", "-1"])
def test_a_pace_that_the_bridge_would_refuse_is_not_rendered(poll_s: str) -> None:
    with pytest.raises(UsageError, match="poll_s"):
        render_text("deployment", image=IMAGE, poll_s=poll_s)


@pytest.mark.parametrize("poll_s", ["0.1", "0.25", "2", "299.5", "300"])
def test_a_pace_that_is_rendered_is_one_that_the_bridge_takes(poll_s: str, tmp_path: Path) -> None:
    config, _ = yaml.safe_load_all(render_text("deployment", image=IMAGE, poll_s=poll_s))
    file = tmp_path / "holdfast.yaml"
    file.write_text(config["data"]["holdfast.yaml"])
    assert config_command(["check", str(file)]) == 0


@pytest.mark.parametrize("port", ["1", "9646", "65535"])
def test_the_metrics_port_of_the_pod_is_the_one_that_the_bridge_serves(
    port: str, tmp_path: Path
) -> None:
    config, deployment = yaml.safe_load_all(
        render_text("deployment", image=IMAGE, metrics_port=port)
    )
    file = tmp_path / "holdfast.yaml"
    file.write_text(config["data"]["holdfast.yaml"])
    section = load_section(file, "bridge", BridgeConfig)
    assert section.metrics_port == int(port)
    assert section.metrics_host == "0.0.0.0"  # noqa: S104 - of the pod's own network
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "metrics", "containerPort": int(port)}]


@pytest.mark.parametrize("port", ["0", "65536", "100000", "null"])
def test_a_metrics_port_that_does_not_exist_is_not_rendered(port: str) -> None:
    with pytest.raises(UsageError, match="metrics_port"):
        render_text("deployment", image=IMAGE, metrics_port=port)


def test_the_bridges_pod_connects_to_the_named_ports_and_only_prometheus_to_it() -> None:
    found = yaml.safe_load(render_text("network-policy", namespace="slurm", ports="443,16817"))
    assert found["metadata"]["namespace"] == "slurm"
    _, deployment = yaml.safe_load_all(render_text("deployment", image=IMAGE))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert found["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert found["spec"]["policyTypes"] == ["Ingress", "Egress"]
    metrics = {"port": 9646, "protocol": "TCP"}
    assert found["spec"]["ingress"] == [{"ports": [metrics]}]
    (rule,) = found["spec"]["egress"]
    ports = [(one["protocol"], one["port"]) for one in rule["ports"]]
    assert ports == [("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 16817)]


@pytest.mark.parametrize("ports", ["0", "65536", "443,", "443;80", "70000", ""])
def test_a_port_that_does_not_exist_is_not_rendered(ports: str) -> None:
    with pytest.raises(UsageError, match="ports"):
        render_text("network-policy", ports=ports)


def test_the_bridges_pod_reads_the_switches_that_are_rendered() -> None:
    found = yaml.safe_load(render_text("off", switches=f"{SWITCH},{ALL}"))
    _, deployment = yaml.safe_load_all(render_text("deployment", image=IMAGE))
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    sources = next(one for one in volumes if one["name"] == "config")["projected"]["sources"]
    assert sources[1]["configMap"]["name"] == found["metadata"]["name"]
    assert {item["key"] for item in sources[1]["configMap"]["items"]} == found["data"].keys()
    with pytest.raises(UsageError, match="switches"):
        render_text("off", switches="gpu_xid")


def test_names_of_nodes_that_differ_are_given_as_a_table(tmp_path: Path) -> None:
    pairs = "worker-0=node-a,gpu_1=node-b.example.org"
    config, _ = yaml.safe_load_all(render_text("deployment", image=IMAGE, nodes=pairs))
    file = tmp_path / "holdfast.yaml"
    file.write_text(config["data"]["holdfast.yaml"])
    assert config_command(["check", str(file)]) == 0
    bridge = load_section(file, "bridge", BridgeConfig)
    assert bridge.join is Join.TABLE
    assert bridge.nodes == {"worker-0": "node-a", "gpu_1": "node-b.example.org"}


def test_every_other_setting_of_the_bridge_reaches_it(tmp_path: Path) -> None:
    """Only what no single value can say is left to a configuration of one's own."""
    settings = {
        "events": "false",
        "node_selector": "pool in (h100, h200),!spot",
        "unreadable_polls": "7",
        "connections": "16",
        "timeout_s": "30",
    }
    config, deployment = yaml.safe_load_all(
        render_text(
            "deployment",
            image=IMAGE,
            runs_on="pool=system,zone=a",
            memory_limit_mib="1024",
            **settings,
        )
    )
    file = tmp_path / "holdfast.yaml"
    file.write_text(config["data"]["holdfast.yaml"])
    bridge = load_section(file, "bridge", BridgeConfig)
    assert bridge.node_selector == "pool in (h100, h200),!spot"
    assert (bridge.events, bridge.unreadable_polls, bridge.connections) == (False, 7, 16)
    assert bridge.timeout_s == 30
    written = yaml.safe_load(config["data"]["holdfast.yaml"])["bridge"].keys()
    own = {"kubeconfig", "isolate", "show_planned", "rules", "budget", "workloads"}
    own |= {"full_read_s", "hold_unknown_s", "hold_free_s", "page_host", "page_names"}
    own |= {"otlp_endpoint", "log_format"}
    assert {field.name for field in fields(BridgeConfig)} - written == own
    pod = deployment["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "system", "zone": "a"}
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "1024Mi"}


def test_without_a_table_slurms_instance_id_is_the_nodes_name(tmp_path: Path) -> None:
    config, _ = yaml.safe_load_all(render_text("deployment", image=IMAGE))
    file = tmp_path / "holdfast.yaml"
    file.write_text(config["data"]["holdfast.yaml"])
    bridge = load_section(file, "bridge", BridgeConfig)
    assert bridge.join is Join.INSTANCE_ID
    assert not bridge.nodes


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("worker-0", "nodes"),
        ("worker-0=Node_A", "nodes"),
        ("worker-0=a, worker-1=b", "nodes"),
        ("worker-0=a,worker-1=a", "the Kubernetes Node a is given twice"),
        ("worker-0=a,worker-0=b", "the Slurm node worker-0 is given twice"),
    ],
)
def test_a_table_that_the_bridge_would_refuse_is_not_rendered(nodes: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        render_text("deployment", image=IMAGE, nodes=nodes)


@pytest.mark.parametrize("adapter", ["commands", "pyslurm"])
def test_the_adapter_is_in_the_pods_configuration(adapter: str, tmp_path: Path) -> None:
    config, _ = yaml.safe_load_all(render_text("deployment", image=IMAGE, adapter=adapter))
    file = tmp_path / "holdfast.yaml"
    file.write_text(config["data"]["holdfast.yaml"])
    assert config_command(["check", str(file)]) == 0
    assert load_section(file, "slurm", SlurmConfig).adapter.value == adapter


def test_slurmrestd_is_in_the_pods_configuration(tmp_path: Path) -> None:
    rest = {"image": IMAGE, "adapter": "rest", "rest_url": "http://slurmrestd:6820"}
    config, _ = yaml.safe_load_all(render_text("deployment", **rest))
    file = tmp_path / "holdfast.yaml"
    file.write_text(config["data"]["holdfast.yaml"])
    assert config_command(["check", str(file)]) == 0
    assert load_section(file, "slurm", SlurmConfig).rest_url == "http://slurmrestd:6820"
    with pytest.raises(UsageError, match="adapter=rest and rest_url belong together"):
        render_text("deployment", image=IMAGE, adapter="rest")


def test_the_kill_switch_is_made_in_the_pods_namespace() -> None:
    assert "kubectl -n slurm create configmap holdfast-off" in render_text(
        "deployment", image=IMAGE, namespace="slurm"
    )
