"""What Terraform applies is what `holdfast render` prints, for the same values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands.render import render_text
from holdfast.monitoring.dashboards import DASHBOARDS
from tests.terraform.program import Terraform

IMAGE = f"registry.example.org/holdfast@sha256:{'1' * 64}"

BRIDGE: Mapping[str, object] = {
    "image": IMAGE,
    "slurm_conf_configmap": "conf",
    "auth": "token",
    "slurm_auth_secret": "secret",
    "auth_path": "/etc/auth",
    "auth_image": "",
    "slurm_user": "bridge",
    "uid": 4242,
    "poll_s": 0.5,
    "metrics_port": 9700,
    "cordon": True,
    "taint": True,
    "drain_on_cordon": True,
    "events": True,
    "nodes": {},
    "node_selector": "",
    "adapter": "commands",
    "rest_url": "",
    "unreadable_polls": 3,
    "connections": 8,
    "timeout_s": 10,
    "runs_on": {},
    "memory_limit_mib": 512,
}

OTHER_BRIDGE: Mapping[str, object] = {
    "events": False,
    "nodes": {"worker-0": "node-a", "worker-1": "node-b"},
    "node_selector": "pool in (h100, h200),!spot",
    "adapter": "pyslurm",
    "unreadable_polls": 7,
    "connections": 16,
    "timeout_s": 30,
    "runs_on": {"pool": "system"},
    "memory_limit_mib": 1024,
}
"""Where it differs from the defaults."""

WORKER_PODS: Mapping[str, Any] = {
    "namespace": "slurm-workers",
    "labels": {"app.kubernetes.io/component": "worker", "pool": "h100"},
}

MONITORING: Mapping[str, Any] = {
    "labels": {"release": "prometheus", "app.kubernetes.io/part-of": "other"},
    "interval_s": 15,
    "drained_percent": 25,
    "agent_pods": {
        "namespace": "soperator",
        "labels": {"slurm.nebius.ai/worker": "true"},
        "port": 9700,
    },
    "dashboards": True,
}

AGENT: Mapping[str, object] = {
    "image": IMAGE,
    "home": "/opt/holdfast",
    "config": "/etc/holdfast/holdfast.yaml",
    "slurmd": ["/usr/sbin/slurmd", "/opt/slurm/sbin/slurmd"],
    "node_selector": {"nvidia.com/gpu.present": "true", "pool": "h100"},
    "max_unavailable": "5%",
    "priority_class": "system-node-critical",
    "memory_limit_mib": 512,
    "silent_s": 60,
}


@pytest.fixture(scope="module")
def here(program: Path, tree: Path) -> Terraform:
    """A root module that calls every module that needs no provider."""
    folder = tree / "equal"
    folder.mkdir()
    (folder / "main.tf").write_text(_ROOT)
    terraform = Terraform(program=program, folder=folder)
    terraform.ok("init")
    return terraform


_CONFIGURATION = """
  cluster    = var.cluster
  gpus       = var.gpus
  nvswitches = var.nvswitches
  mounts     = var.mounts
  history    = var.history
  checks     = var.checks

  extra_configuration = var.extra
"""

_ROOT = f"""
variable "cluster" {{ default = "cluster" }}
variable "gpus" {{ default = 8 }}
variable "nvswitches" {{ default = null }}
variable "mounts" {{ default = [] }}
variable "history" {{ default = null }}
variable "checks" {{ default = {{}} }}
variable "extra" {{ default = {{}} }}
variable "namespace" {{ default = "holdfast" }}
variable "bridge" {{ default = null }}
variable "agent" {{ default = null }}
variable "monitoring" {{ default = null }}
variable "switches" {{ default = [] }}
variable "ports" {{ default = [443] }}
variable "off" {{ default = [] }}
variable "home" {{ default = "/opt/holdfast" }}

module "manifests" {{
  source               = "../modules/cluster/manifests"
  cluster              = var.cluster
  namespace            = var.namespace
  bridge               = var.bridge
  agent                = var.agent
  monitoring           = var.monitoring
  kill_switches        = var.switches
  network_policy_ports = var.ports
}}

module "soperator" {{
  source        = "../modules/soperator/values"
  kill_switches = var.off
{_CONFIGURATION}
}}

module "slinky" {{
  source  = "../modules/slinky"
  image   = "registry.example.org/workers:1"
  nodeset = "gpu"
{_CONFIGURATION}
}}

module "slurm" {{
  source = "../modules/slurm"
  home   = var.home
{_CONFIGURATION}
}}

output "manifests" {{ value = module.manifests.manifests }}
output "soperator" {{ value = module.soperator }}
output "slinky" {{ value = module.slinky.values }}
output "slurm" {{ value = module.slurm }}
"""


def parsed(text: str) -> Any:
    """A document with the texts inside it parsed too: quotes and blanks there mean nothing."""
    return inside(yaml.safe_load(text))


def inside(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: inside(each) for key, each in value.items() if (key, each) != EMPTY_PATHS}
    if isinstance(value, list):
        return [inside(each) for each in value]
    if isinstance(value, str) and value.startswith(TEXTS):
        return inside(yaml.safe_load(value))
    return value


TEXTS = ("# Holdfast's configuration", "cluster: ", "healthCheckConfig:", "slurmScripts:")
"""How the documents begin that are texts in other documents."""

EMPTY_PATHS = ("paths", {"history": None})
"""Terraform says so where `holdfast render` says nothing; both are the default."""


def by_name(text: str) -> Mapping[str, Any]:
    read = [inside(one) for one in yaml.safe_load_all(text)]
    return {f"{one['kind']}-{one['metadata']['name']}".lower(): one for one in read}


def objects(group: Mapping[str, str]) -> Mapping[str, Any]:
    return by_name("\n---\n".join(group.values()))


@pytest.mark.parametrize("auth", ["munge", "slurm"])
def test_the_side_car_with_the_clusters_key(here: Terraform, auth: str) -> None:
    other = f"registry.example.org/side-car@sha256:{'2' * 64}"
    bridge = {**BRIDGE, "auth": auth, "auth_image": other if auth == "munge" else ""}
    here.ok("apply", "-auto-approve", bridge=bridge)
    text = {name: _text(value) for name, value in bridge.items()}
    made = objects(here.outputs()["manifests"]["bridge"])
    assert made == by_name(render_text("deployment", **text))
    pod = made["deployment-holdfast-bridge"]["spec"]["template"]["spec"]
    assert pod["initContainers"][0]["image"] == (bridge["auth_image"] or IMAGE)


@pytest.mark.parametrize("on", [True, False])
def test_the_cluster(here: Terraform, on: bool) -> None:
    switch = str(on).lower()
    bridge = {**BRIDGE, "cordon": on, "taint": not on, "drain_on_cordon": on}
    bridge |= {"worker_pods": WORKER_PODS} if on else OTHER_BRIDGE
    agent = AGENT if on else {**AGENT, "node_selector": {}, "max_unavailable": "3", "silent_s": 61}
    here.ok(
        "apply",
        "-auto-approve",
        **{"cluster": "c-1", "namespace": "slurm", "bridge": bridge, "agent": agent},
        switches=["bridge", "all"],
        ports=[443, 16443],
    )
    manifests = here.outputs()["manifests"]
    rights = {"namespace": "slurm", "cordon": switch, "taint": str(not on).lower()}
    text = {name: _text(value) for name, value in bridge.items() if name != "worker_pods"}
    script = {name: _text(value) for name, value in agent.items()}
    text |= {"worker_pods_namespace": "slurm-workers"} if on else {}
    wanted = {
        "rights": render_text("rbac", **rights),
        "bridge": render_text("deployment", cluster="c-1", namespace="slurm", **text),
        "network": render_text(
            "network-policy", namespace="slurm", ports="443,16443", metrics_port="9700"
        ),
        "off": render_text("off", namespace="slurm", switches="bridge,all"),
        "agent": render_text("daemonset", namespace="slurm", **script),
    }
    if on:
        workers = {"worker_namespace": "slurm-workers", "workers": _text(WORKER_PODS["labels"])}
        wanted["worker_pods"] = render_text("worker-pods", namespace="slurm", **workers)
    assert {group for group, made in manifests.items() if made} == wanted.keys()
    for group, rendered in wanted.items():
        assert objects(manifests[group]) == by_name(rendered), group


def test_the_bridge_over_slurmrestd(here: Terraform) -> None:
    """The NetworkPolicy allows slurmrestd's port too."""
    bridge = {**BRIDGE, "adapter": "rest", "rest_url": "https://slurmrestd.slurm:6820"}
    here.ok("apply", "-auto-approve", bridge=bridge, ports=[443])
    manifests = here.outputs()["manifests"]
    text = {name: _text(value) for name, value in bridge.items()}
    assert objects(manifests["bridge"]) == by_name(render_text("deployment", **text))
    policy = render_text("network-policy", ports="443,6820", metrics_port="9700")
    assert objects(manifests["network"]) == by_name(policy)


def test_further_settings(here: Terraform, tmp_path: Path) -> None:
    """Each section, as JSON in a file and as an input of Terraform."""
    extra = {
        "agent": {"metrics_port": 9645, "return_test": "observe"},
        "node": {"budget": {"max_nodes": 4}, "reason_style": "node_problem"},
        "active": {"storage": {"size_mib": 64}},
    }
    of_bridge = {
        "bridge": {
            "rules": [{"use": "not-ready", "mode": "drain"}],
            "budget": {"max_nodes": 4},
            "workloads": {"namespaces": ["team-a", "team-b"]},
        },
        "slurm": {"timeout_s": 20},
        "node": {"budget": {"max_nodes": 4}},
    }
    files = {"extra_configuration": str(tmp_path / "extra.yaml")}
    Path(files["extra_configuration"]).write_text(json.dumps(extra))
    bridge = {**BRIDGE, "extra_configuration": of_bridge}
    here.ok("apply", "-auto-approve", extra=extra, bridge=bridge, off=["all"])
    made = here.outputs()
    text = render_text("configuration", **files)
    assert parsed(made["slurm"]["files"]["/etc/holdfast/holdfast.yaml"]) == parsed(text)
    assert parsed(text)["node"]["budget"] == {"max_nodes": 4}
    soperator = render_text("soperator", mounts="", off="all", **files)
    assert parsed(made["soperator"]["values"]) == parsed(soperator)
    image = {"image": "registry.example.org/workers:1", "nodeset": "gpu"}
    assert parsed(made["slinky"]) == parsed(render_text("slinky", **image, **files))
    Path(files["extra_configuration"]).write_text(json.dumps(of_bridge))
    values = {name: _text(value) for name, value in BRIDGE.items()}
    rendered = render_text("deployment", **values, **files)
    assert objects(made["manifests"]["bridge"]) == by_name(rendered)
    rights = render_text("workloads-rbac", namespaces="team-a,team-b")
    assert len(made["manifests"]["workloads"]) == 8
    assert in_order("\n---\n".join(made["manifests"]["workloads"].values())) == in_order(rights)


def in_order(text: str) -> list[Any]:
    """All objects, also those of one name in several namespaces."""
    return sorted(yaml.safe_load_all(text), key=lambda one: (one["kind"], json.dumps(one)))


@pytest.mark.parametrize("bridge", [BRIDGE, None])
def test_the_monitoring(here: Terraform, bridge: Mapping[str, object] | None) -> None:
    here.ok("apply", "-auto-approve", namespace="slurm", bridge=bridge, monitoring=MONITORING)
    manifests = here.outputs()["manifests"]
    given = {"namespace": "slurm", "labels": _text(MONITORING["labels"])}
    pods = {name: _text(value) for name, value in MONITORING["agent_pods"].items()}
    wanted = {
        "alerts": render_text("prometheus-rules", of="agent", drained_percent="25", **given),
        "agent_scrape": render_text(
            "agent-pod-monitor",
            interval_s="15",
            pods=pods["labels"],
            pods_namespace=pods["namespace"],
            port=pods["port"],
            **given,
        ),
        "dashboards": "\n---\n".join(
            render_text("dashboard", which=which, **{"as": "configmap"}, **given)
            for which in DASHBOARDS
        ),
    }
    if bridge:
        wanted["bridge_alerts"] = render_text("prometheus-rules", of="bridge", **given)
        wanted["bridge_scrape"] = render_text("pod-monitor", interval_s="15", **given)
    here_too = {"rights", "bridge", "network"}
    assert {group for group, made in manifests.items() if made} - here_too == wanted.keys()
    for group, rendered in wanted.items():
        assert objects(manifests[group]) == by_name(rendered), group


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items())
    return ",".join(value) if isinstance(value, list) else str(value)


CONFIGURATIONS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {}),
    (
        {"cluster": "c.1", "gpus": 4, "mounts": ["/mnt/a", "/mnt/b"], "history": "/mnt/a/h"},
        {"cluster": "c.1", "gpus": "4", "mounts": "/mnt/a,/mnt/b", "history": "/mnt/a/h"},
    ),
    ({"gpus": 0, "nvswitches": 2}, {"gpus": "0", "nvswitches": "2"}),
    ({"nvswitches": 0}, {"nvswitches": "0"}),
]


@pytest.mark.parametrize(("given", "rendered"), CONFIGURATIONS)
def test_the_values_and_files(
    here: Terraform, given: dict[str, Any], rendered: dict[str, str]
) -> None:
    here.ok("apply", "-auto-approve", off=["all", "gpu_xid"], **given)
    made = here.outputs()
    soperator = {"mounts": "", **rendered, "off": "all,gpu_xid"}
    flux = render_text("soperator", **soperator, **{"as": "flux"})
    assert parsed(made["soperator"]["manifest"]) == parsed(flux)
    assert parsed(made["soperator"]["values"]) == parsed(render_text("soperator", **soperator))
    assert made["soperator"]["nodeset_values"] == render_text("soperator-nodeset")
    image = {"image": "registry.example.org/workers:1", "nodeset": "gpu"}
    assert parsed(made["slinky"]) == parsed(render_text("slinky", **image, **rendered))
    files = made["slurm"]["files"]
    configuration = render_text("configuration", **rendered)
    assert parsed(files["/etc/holdfast/holdfast.yaml"]) == parsed(configuration)
    assert files["/etc/systemd/system/holdfast-agent.service"] == render_text("systemd")
    assert made["slurm"]["slurm_conf"] == render_text("slurm-conf")


def test_modes_and_limits_reach_the_configuration(here: Terraform, tmp_path: Path) -> None:
    """As numbers and lists, not as texts: the configuration would refuse those."""
    from holdfast.config.schema import load_cluster

    checks = {
        "gpu_xid": {"mode": "drain"},
        "pci_devices": {"mode": "comment", "limits": {"nvswitches": 2}},
        "infiniband": {"limits": {"hcas": '["mlx5_0"]', "window_s": "3600"}},
    }
    here.ok("apply", "-auto-approve", checks=checks)
    text = here.outputs()["slurm"]["files"]["/etc/holdfast/holdfast.yaml"]
    read = yaml.safe_load(text)["checks"]
    assert read["gpu_xid"] == {"mode": "drain"}
    assert read["pci_devices"] == {"mode": "comment", "limits": {"nvswitches": 2}}
    assert read["infiniband"] == {
        "mode": "observe",
        "limits": {"hcas": ["mlx5_0"], "window_s": 3600},
    }
    file = tmp_path / "holdfast.yaml"
    file.write_text(text)
    assert load_cluster(file).paths.history is None


def test_user_data_of_cloud_init_has_the_files(here: Terraform) -> None:
    here.ok("apply", "-auto-approve", mounts=["/mnt/a"])
    made = here.outputs()["slurm"]
    assert made["cloud_init"].startswith("#cloud-config\n")
    written = yaml.safe_load(made["cloud_init"])["write_files"]
    assert {one["path"]: one["content"] for one in written} == made["files"]
