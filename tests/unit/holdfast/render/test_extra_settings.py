"""Further settings of a rendered configuration: what is added, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands.render import render_text
from holdfast.config.load import check
from holdfast.config.sections import SECTIONS, schema_of
from holdfast.errors import UsageError

IMAGE = {"image": f"registry.example.org/holdfast@sha256:{'0' * 64}"}
SCHEMAS = {name: schema_of(name) for name in SECTIONS}


def file(folder: Path, text: str) -> str:
    path = folder / "extra.yaml"
    path.write_text(text)
    return str(path)


def configuration(folder: Path, text: str) -> dict[str, Any]:
    """The rendered holdfast.yaml, which has no problem."""
    made = folder / "holdfast.yaml"
    made.write_text(render_text("configuration", extra_configuration=file(folder, text)))
    assert check(made, SCHEMAS) == []
    read: dict[str, Any] = yaml.safe_load(made.read_text())
    return read


def test_sections_and_keys_are_added(tmp_path: Path) -> None:
    text = (
        "agent: {metrics_port: 9645, return_test: off}\n"
        "node: {reason_style: node_problem, budget: {max_nodes: 4}}\n"
    )
    read = configuration(tmp_path, text)
    assert read["agent"]["metrics_port"] == 9645
    assert read["node"]["reason_style"] == "node_problem"
    assert read["node"]["expected_gpus"] == 8
    assert read["node"]["budget"] == {"max_nodes": 4}


def test_checks_replace_the_entries_of_the_same_name(tmp_path: Path) -> None:
    text = (
        "checks:\n  gpu_xid: {mode: drain}\n  pci_devices: {mode: comment}\n"
        "  gpu_thermal: {mode: off}\n  infiniband: {limits: {hcas: [mlx5_0]}}\n"
    )
    checks = configuration(tmp_path, text)["checks"]
    assert checks["gpu_xid"] == {"mode": "drain"}
    assert checks["pci_devices"] == {"mode": "comment", "limits": {"nvswitches": 4}}
    assert checks["infiniband"] == {"mode": "observe", "limits": {"hcas": ["mlx5_0"]}}
    assert checks["gpu_lost"] == {"mode": "observe"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agents: {}", "extra.yaml:1: agents: unknown section; did you mean 'agent'?"),
        ("agent: {port: 1}", "extra.yaml:1: agent.port: unknown key"),
        ("agent: {metrics_port: 0}", "agent.metrics_port: must be between 1 and 65535"),
        ("agent: [", "not valid YAML"),
        ("cluster: c", "cluster is written by this document: use --set cluster="),
        ("node: {mounts: [/a]}", "node.mounts is written by this document: use --set mounts="),
        ("paths: {history: /a}", "paths is written by this document: use --set history="),
        ("job: {max_attempts: 3}\nactive: {partition: '{{x'}", "two opening braces"),
    ],
)
def test_what_cannot_be_added_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        render_text("configuration", extra_configuration=file(tmp_path, text))
    assert problem in str(raised.value)


def test_a_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        render_text("configuration", extra_configuration=str(tmp_path / "none"))


def bridges(**values: str) -> dict[str, Any]:
    text = render_text("deployment", **IMAGE, **values)
    read: dict[str, Any] = yaml.safe_load(next(yaml.safe_load_all(text))["data"]["holdfast.yaml"])
    return read


def test_the_bridges_deployment_takes_every_other_setting(tmp_path: Path) -> None:
    text = "bridge: {isolate: {DOWN: taint}, log_format: json}\nslurm: {timeout_s: 20}\n"
    read = bridges(extra_configuration=file(tmp_path, text))
    assert read["bridge"]["isolate"] == {"DOWN": "taint"}
    assert read["bridge"]["log_format"] == "json"
    assert read["slurm"]["timeout_s"] == 20
    with pytest.raises(UsageError, match="agent: nothing here reads this section"):
        bridges(extra_configuration=file(tmp_path, "agent: {}"))


def test_no_key_can_be_written_twice(tmp_path: Path) -> None:
    settings = bridges()
    keys = [f"{name}.{key}" for name in ("slurm", "bridge") for key in settings[name]]
    assert len(keys) > 15
    for name in keys:
        section, _, key = name.partition(".")
        value = yaml.safe_dump({section: {key: settings[section][key]}})
        with pytest.raises(UsageError) as raised:
            bridges(extra_configuration=file(tmp_path, value))
        assert f"{name} is written by this document" in str(raised.value)
