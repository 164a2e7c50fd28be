"""The bridge's own documents."""

from __future__ import annotations

import yaml

from holdfast.render import render_text


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
    text = render_text("deployment", image="registry.example/holdfast:1", cordon="false")
    config, deployment = yaml.safe_load_all(text)
    assert yaml.safe_load(config["data"]["holdfast.yaml"])["bridge"]["cordon"] is False
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example/holdfast:1"
    assert pod["serviceAccountName"] == "holdfast-bridge"
    assert "{{" not in text
