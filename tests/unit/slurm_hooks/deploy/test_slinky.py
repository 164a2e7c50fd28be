"""Slinky's values, held against the keys of its chart (scripts/hold_against wrote them down)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands.config import main as config_command
from holdfast.cli.commands.render import render_text
from slurm_hooks.checks import CATALOGUE

SLINKY = json.loads((Path(__file__).parents[3] / "data/deploy/slinky.json").read_text())
RELEASES = SLINKY["releases"]


@pytest.fixture
def values() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(
        render_text("slinky", image="registry.example.org/holdfast:1", nodeset="gpu")
    )
    return read


@pytest.mark.parametrize("version", RELEASES)
def test_every_key_is_one_of_the_chart(values: dict[str, Any], version: str) -> None:
    ignored = {"extraObjects"} if version in ("1.0.5", "1.1.2") else set()
    assert set(values) - set(RELEASES[version]["values_keys"]) == ignored
    assert RELEASES[version]["ignored_keys"] == sorted(ignored)
    assert set(values["nodesets"]) == {"gpu"}
    assert set(values["nodesets"]["gpu"]) <= set(RELEASES[version]["nodeset_keys"])


def test_a_node_set_of_digits_alone_stays_a_name() -> None:
    read = yaml.safe_load(render_text("slinky", image="a/b:1", nodeset="100"))
    assert set(read["nodesets"]) == {"100"}


@pytest.mark.parametrize("version", RELEASES)
def test_a_real_api_server_accepted_what_the_real_chart_made_of_it(version: str) -> None:
    assert {"Controller", "NodeSet", "ConfigMap"} <= set(RELEASES[version]["accepted"])


def test_the_real_manager_made_of_the_values_what_they_mean(values: dict[str, Any]) -> None:
    """And the Secrets that the page names: those of the side-car's key and of the bridge's token."""
    made = SLINKY["manager"]
    conf = values["controller"]["extraConfMap"]
    said = {key: str(conf[key]) for key in ("HealthCheckProgram", "HealthCheckInterval")}
    assert said.items() <= made["slurm_conf"].items()
    assert made["slurm_conf"]["Prolog"] == "prolog-00-holdfast"
    assert {f"{kind}-00-holdfast" for kind in ("prolog", "epilog")} == set(made["scripts"])
    nodeset = values["nodesets"]["gpu"]
    assert made["worker_args"][-2:] == nodeset["slurmd"]["args"]
    assert "INSTANCE_ID" in made["worker_env"]
    mounts = {mount["mountPath"] for mount in nodeset["slurmd"]["volumeMounts"]}
    assert mounts <= set(made["worker_mounts"])
    assert "holdfast" in made["worker_init_containers"]
    assert (made["slurm_key_bytes"], made["token_user"]) == (1024, "holdfast")
    assert made["slurmctld"] == ["slurm-controller"], "the page types commands in its pod"
    assert made["worker"] == "slurm-worker-gpu-0", "and in this one"
    assert made["worker_labels"]["app.kubernetes.io/component"] == "worker"


def test_the_real_manager_changed_one_config_map_for_a_setting() -> None:
    """No worker pod. The record is written only if every object was as before, after the page's removal."""
    assert SLINKY["manager"]["settings_change"] == ["ConfigMap/slurm/holdfast"]


def test_slurm_conf_gets_the_lines_that_plain_slurm_gets(values: dict[str, Any]) -> None:
    lines = [line for line in render_text("slurm-conf").splitlines() if not line.startswith("#")]
    plain = {line for line in lines if not line.startswith(("Prolog=", "Epilog="))}
    for release in RELEASES.values():
        # Charts up to 1.1.2 write their partition there.
        made = {line for line in release["extra_conf"] if not line.startswith("PartitionName=")}
        assert made == plain
    said = {
        f"{key}={','.join(value) if isinstance(value, list) else value}"
        for key, value in values["controller"]["extraConfMap"].items()
    }
    assert said == plain


@pytest.mark.parametrize("version", RELEASES)
def test_slurms_instance_id_is_the_kubernetes_node(values: dict[str, Any], version: str) -> None:
    """The charts pass both lists on, and the operator puts them after its own."""
    slurmd = values["nodesets"]["gpu"]["slurmd"]
    assert slurmd["args"] == ["--instance-id", f"$({slurmd['env'][0]['name']})"]
    assert slurmd["env"][0]["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    made = RELEASES[version]["slurmd"]
    assert made["args"] == slurmd["args"]
    assert slurmd["env"][0] in made["env"]


def test_every_volume_that_is_mounted_is_there(values: dict[str, Any]) -> None:
    nodeset = values["nodesets"]["gpu"]
    volumes = {volume["name"] for volume in nodeset["podSpec"]["volumes"]}
    (init,) = nodeset["podSpec"]["initContainers"]
    mounted = [*nodeset["slurmd"]["volumeMounts"], *init["volumeMounts"]]
    assert {mount["name"] for mount in mounted} == volumes


def test_every_check_has_a_kill_switch(values: dict[str, Any]) -> None:
    volumes = values["nodesets"]["gpu"]["podSpec"]["volumes"]
    (config,) = (volume["projected"] for volume in volumes if "projected" in volume)
    switches = config["sources"][1]["configMap"]
    assert switches["optional"] is True
    assert {item["path"] for item in switches["items"]} == {
        f"off/{name}" for name in ("all", *CATALOGUE)
    }


def test_the_configuration_is_valid(values: dict[str, Any], tmp_path: Path) -> None:
    (config_map,) = values["extraObjects"]
    file = tmp_path / "holdfast.yaml"
    file.write_text(config_map["data"]["holdfast.yaml"])
    assert config_command(["check", str(file)]) == 0
