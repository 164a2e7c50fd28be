"""Each wrong input is refused before anything is created: the message has the value and a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.terraform.program import Terraform

pytestmark = [pytest.mark.terraform, pytest.mark.timeout(300)]

IMAGE = f"registry.example.org/holdfast@sha256:{'0' * 64}"


def workers(*named: tuple[str, str]) -> list[dict[str, Any]]:
    """Nodesets in the recipe's shape: names and presets."""
    return [
        {
            "name": name,
            "size": 2,
            "resource": {"platform": "gpu-h100-sxm", "preset": preset},
            "boot_disk": {"type": "NETWORK_SSD", "size_gibibytes": 512},
            "gpu_cluster": {"infiniband_fabric": "fabric-6"},
        }
        for name, preset in named
    ]


H100 = ("worker", "8gpu-128vcpu-1600gb")
CPU = ("cpu", "16vcpu-64gb")


def submounts(*paths: str) -> list[dict[str, Any]]:
    """Submounts in the recipe's shape."""
    return [
        {
            "name": path.strip("/").replace("/", "-"),
            "mount_path": path,
            "spec": {"size_gibibytes": 2048, "block_size_kibibytes": 4},
        }
        for path in paths
    ]


GOOD: dict[str, Any] = {
    "slurm_operator_version": "4.1.11",
    "slurm_nodeset_workers": workers(H100, CPU),
    "filesystem_jail_submounts": submounts("/mnt/training", "/mnt/inference"),
}


@pytest.fixture(scope="module")
def root(program: Path, config: Path, tree: Path) -> Terraform:
    """The root module with a provider that reaches nothing."""
    folder = tree
    (folder / "provider.tf").write_text(
        'provider "kubectl" {\n  host             = "https://127.0.0.1:1"\n  load_config_file = false\n}\n'
    )
    terraform = Terraform(program=program, folder=folder, config=config)
    terraform.ok("init")
    return terraform


def test_the_recipes_variables_are_taken_as_they_are(root: Terraform) -> None:
    answer = root.ok("plan", **GOOD, history_path="/mnt/training/holdfast-history")
    assert 'nodesets = [ + "worker", ]' in answer.text
    assert '"/mnt/jail/mnt/training", + "/mnt/jail/mnt/inference"' in answer.text
    assert "paths: {history: /mnt/jail/mnt/training/holdfast-history}" in answer.text
    assert "expected_gpus: 8" in answer.text


def test_the_older_names_of_the_recipe_are_taken_too(root: Terraform) -> None:
    given = {**GOOD, "filesystem_jail_submounts": []}
    answer = root.ok("plan", **given, filestore_jail_submounts=submounts("/mnt/training/"))
    assert 'mounts = [ + "/mnt/jail/mnt/training", ]' in answer.text


BRIDGE = {"image": IMAGE}

Case = tuple[dict[str, Any], str, str]
"""Inputs, what the message names, and its remedy."""

OF_ONE_VARIABLE: list[Case] = [
    ({"slurm_operator_version": "1.22.4"}, 'version is "1.22.4"', "Upgrade Soperator to 2.0"),
    ({"slurm_operator_version": "latest"}, 'version is "latest"', 'for example "4.1.11"'),
    ({"slurm_cluster_name": "a b"}, 'slurm_cluster_name is "a b"', "use letters"),
    ({"slurm_nodeset_workers": []}, "slurm_nodeset_workers is empty", "pass the recipe's variable"),
    (
        {"slurm_nodeset_workers": workers(H100, H100)},
        '["worker","worker"]',
        "give each nodeset its own name",
    ),
    ({"slurm_nodeset_workers": workers(("w", "big"))}, '["big"]', "8gpu-128vcpu-1600gb"),
    (
        {"filesystem_jail_submounts": submounts("/mnt/a b")},
        '["/mnt/a b"]',
        "use absolute paths",
    ),
    (
        {"filesystem_jail_submounts": submounts("/mnt/training", "/mnt/training/")},
        "two filesystems on one mount: mnt-training on /mnt/training",
        "Give each its own mount_path",
    ),
    (
        {
            "filesystem_jail_submounts": [],
            "filestore_jail_submounts": submounts("/mnt/a", "/mnt/a"),
        },
        "two filestores on one mount",
        "Give each its own mount_path",
    ),
    (
        {"slurm_health_check_config": {"health_check_interval": 60}},
        "slurm_health_check_config is set",
        "Remove it",
    ),
    ({"nvswitches": 65}, "nvswitches is 65", "from 0 to 64"),
    ({"checks": {"gpu_xid": {"mode": "arm"}}}, '{"gpu_xid":"arm"}', '"comment" or "drain"'),
    ({"kill_switches": ["gpu-xid"]}, '["gpu-xid"]', "use names of checks"),
    ({"extra_configuration": {"agent": 1}}, '{"agent":1}', "give sections with their keys"),
    ({"namespace": "Holdfast"}, 'namespace is "Holdfast"', "small letters"),
    ({"bridge": {"image": "a/b:1"}}, 'bridge.image is "a/b:1"', "with its digest"),
    ({"bridge": {**BRIDGE, "auth_path": "x"}}, 'bridge.auth_path is "x"', "an absolute path"),
    ({"bridge": {**BRIDGE, "auth": "key"}}, 'bridge.auth is "key"', '"token", "munge" or "slurm"'),
    ({"bridge": {**BRIDGE, "auth_image": "a:1"}}, 'bridge.auth_image is "a:1"', "with its digest"),
    (
        {"bridge": {**BRIDGE, "adapter": "rest", "rest_url": "http://a:1", "auth": "munge"}},
        'bridge.adapter is "rest" and bridge.auth "munge"',
        "slurmrestd takes a token",
    ),
    ({"bridge": {**BRIDGE, "uid": 0}}, "bridge.uid is 0", "not root"),
    ({"bridge": {**BRIDGE, "poll_s": 0}}, "bridge.poll_s is 0", "0.1 to 300 seconds"),
    ({"bridge": {**BRIDGE, "slurm_user": "A"}}, 'bridge.slurm_user is "A"', "name of a Slurm user"),
    ({"bridge": {**BRIDGE, "slurm_conf_configmap": "A_"}}, 'configmap is "A_"', "small letters"),
    ({"bridge": {**BRIDGE, "metrics_port": 0}}, "bridge.metrics_port is 0", "from 1 to 65535"),
    ({"agent": {"image": "debian:13"}}, 'agent.image is "debian:13"', "with its digest"),
    ({"monitoring": {"labels": {"a b": "c"}}}, '[{"a b":"c"},{}]', "use labels of Kubernetes"),
    ({"monitoring": {"interval_s": 0.5}}, "interval_s is 0.5", "use 1 to 999 seconds"),
    (
        {"monitoring": {"drained_percent": 100}},
        "drained_percent is 100",
        "use a whole number from 1 to 99",
    ),
    (
        {"monitoring": {"agent_pods": {"namespace": "soperator", "labels": {}}}},
        '"namespace":"soperator"',
        "kubectl get pods --show-labels",
    ),
]

ACROSS: list[Case] = [
    (
        {"extra_configuration": {"node": {"mounts": []}, "checks": {}}},
        'extra_configuration has ["checks","node.mounts"]',
        "the input checks, mounts sets that",
    ),
    (
        {"extra_configuration": {"agents": {}, "agent": {"port": 1}}},
        'has ["agents","agent.port"]',
        "docs/reference/configuration.md",
    ),
    (
        {"extra_configuration": {"agent": {"bin": "{{ .x }}"}}},
        "a text with two opening braces",
        "Helm would take them for an action",
    ),
    (
        {"bridge": {**BRIDGE, "extra_configuration": {"bridge": {"cordon": False}}}},
        'bridge.extra_configuration has ["bridge.cordon"]',
        'the attribute of bridge ["cordon"]',
    ),
    (
        {
            "bridge": {
                **BRIDGE,
                "extra_configuration": {"bridge": {"worker_pods_namespace": "soperator"}},
            }
        },
        'bridge.extra_configuration has ["bridge.worker_pods_namespace"]',
        'the attribute of bridge ["worker_pods"]',
    ),
    (
        {"bridge": {**BRIDGE, "extra_configuration": {"agent": {}, "bridge": {"rule": []}}}},
        'has ["agent","bridge.rule"]',
        "Use keys of bridge, node, paths and slurm",
    ),
    (
        {"filestore_jail_submounts": submounts("/mnt/a")},
        "are both set",
        "pass the one that your recipe has",
    ),
    ({"nodesets": ["gpu"]}, 'nodesets names ["gpu"]', 'use some of ["cpu","worker"]'),
    (
        {"slurm_nodeset_workers": workers(CPU)},
        '["16vcpu-64gb"]',
        "Name the nodesets to watch in nodesets",
    ),
    ({"nodesets": ["worker", "cpu"]}, "have 8 and 0 GPUs", "Name those with the same number"),
    (
        {"mounts": ["/mnt/data"]},
        'mounts has ["/mnt/data"], which is no submount',
        'use some of ["/mnt/training","/mnt/inference"]',
    ),
    (
        {"history_path": "/home/history"},
        'history_path is "/home/history", which is on no submount',
        '"/mnt/training/holdfast-history"',
    ),
    ({"checks": {"gpu_xids": {}}}, 'checks names ["gpu_xids"]', "docs/reference/checks.md"),
    ({"kill_switches": ["gpu_xids"]}, '["gpu_xids"]: there is no such check', '"all"'),
]


def together(cases: list[Case]) -> list[list[Case]]:
    """Cases of different variables in groups: one run reports all of a group's errors."""
    groups: list[list[Case]] = []
    for case in cases:
        for group in groups:
            if not any(case[0].keys() & other[0].keys() for other in group):
                group.append(case)
                break
        else:
            groups.append([case])
    return groups


@pytest.mark.parametrize("cases", together(OF_ONE_VARIABLE))
def test_a_wrong_input(root: Terraform, cases: list[Case]) -> None:
    given = {name: value for case in cases for name, value in case[0].items()}
    answer = root.run("plan", **{**GOOD, **given})
    assert answer.status == 1
    for _, names, remedy in cases:
        assert names in answer.text
        assert remedy in answer.text


SLURMRESTD = "http://slurmrestd:6820"

WRONG_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"adapter": "sinfo"}, 'bridge.adapter is "sinfo": use "commands", "pyslurm" or "rest"'),
    (
        {"adapter": "rest"},
        'bridge.rest_url "": with "rest" give http://HOST:PORT or https://HOST:PORT',
    ),
    ({"rest_url": SLURMRESTD}, "otherwise leave rest_url empty"),
    (
        {"nodes": {"worker-0": "node-a", "worker-1": "node-a"}},
        "map each Slurm node to a Kubernetes Node of its own",
    ),
    ({"node_selector": "a;b"}, 'bridge.node_selector is "a;b": use a label selector'),
    ({"runs_on": {"pool": "a b"}}, 'bridge.runs_on is {"pool":"a b"}: use labels'),
    ({"connections": 0}, "bridge.connections 0 (1 to 64)"),
    (
        {"worker_pods": {"labels": {}}},
        'bridge.worker_pods is {"labels":{},"namespace":"soperator"}: give the namespace',
    ),
    ({"worker_pods": {"labels": {"a b": "c"}}}, "at least one of their labels (kubectl get pods"),
    ({"worker_pods": {"namespace": "A"}}, '"namespace":"A"}: give the'),
    (
        {"extra_configuration": {"bridge": {"workloads": {"namespaces": "team-a"}}}},
        'bridge.extra_configuration is "team-a": give a list of namespaces, each once',
    ),
    (
        {"extra_configuration": {"bridge": {"workloads": {"namespaces": ["Team"]}}}},
        'bridge.extra_configuration is ["Team"]: give a list of namespaces, each once',
    ),
    (
        {"extra_configuration": {"bridge": {"workloads": {"namespaces": ["a", "a"]}}}},
        'bridge.extra_configuration is ["a","a"]: give a list of namespaces, each once',
    ),
]
"""One at a time: OpenTofu shows the first error of a variable only."""

WRONG_AGENT: list[tuple[dict[str, Any], str]] = [
    ({"home": "opt/holdfast"}, '"opt/holdfast","/etc/holdfast/holdfast.yaml"'),
    ({"slurmd": []}, "agent.slurmd is empty: name slurmd's program as slurmd sees it"),
    ({"node_selector": {"a b": "c"}}, 'agent.node_selector is {"a b":"c"}: use labels'),
    ({"max_unavailable": "0%"}, 'agent.max_unavailable is "0%": use a number of nodes'),
    ({"priority_class": "High"}, 'agent.priority_class is "High": use the name of a'),
    ({"memory_limit_mib": 127}, "agent.memory_limit_mib is 127: use a whole number from 128"),
    ({"silent_s": 0.5}, "agent.silent_s is 0.5: use a whole number of seconds"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG_SETTINGS)
def test_a_wrong_setting_of_the_bridge(
    root: Terraform, wrong: dict[str, Any], message: str
) -> None:
    answer = root.run("plan", **{**GOOD, "bridge": {**BRIDGE, **wrong}})
    assert answer.status == 1
    assert message in answer.text


@pytest.mark.parametrize(("wrong", "message"), WRONG_AGENT)
def test_a_wrong_setting_of_the_agent(root: Terraform, wrong: dict[str, Any], message: str) -> None:
    agent = {"image": BRIDGE["image"], **wrong}
    answer = root.run("plan", **{**GOOD, "agent": agent})
    assert answer.status == 1
    assert message in answer.text


@pytest.mark.parametrize(("given", "names", "remedy"), ACROSS)
def test_inputs_that_contradict_each_other(
    root: Terraform, given: dict[str, Any], names: str, remedy: str
) -> None:
    answer = root.run("plan", **{**GOOD, **given})
    assert answer.status == 1
    assert names in answer.text
    assert remedy in answer.text
