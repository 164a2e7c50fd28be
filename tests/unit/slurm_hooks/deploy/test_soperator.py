"""Soperator's values, compared with what its charts, its CRDs and its check runner accept.

scripts/hold_against read the keys from Soperator itself, rendered its charts of every release with
these values, ran Flux's post-render, and submitted the result to a real API server and to Soperator's
real manager. The record is tests/data/deploy/soperator.json. test_wrappers.py runs the scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.commands.config import main as config_command
from holdfast.cli.commands.render import render_text
from holdfast.errors import UsageError
from slurm_hooks.checks import CATALOGUE

DATA = Path(__file__).parents[3] / "data/deploy"
SOPERATOR = json.loads((DATA / "soperator.json").read_text())
HOOKS = ("wrapper", "runner")


def values(**given: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(render_text("soperator", **given))
    return read


def extra(**given: str) -> Mapping[str, Mapping[str, str]]:
    files: Mapping[str, Mapping[str, str]] = values(**given)["slurmScripts"]["extra"]
    return files


@pytest.mark.parametrize("version", SOPERATOR["releases"])
@pytest.mark.parametrize("hooks", HOOKS)
def test_each_entry_has_only_keys_that_the_runner_of_each_release_knows(
    hooks: str, version: str
) -> None:
    """One key that the runner does not know, and it skips all checks of the cluster."""
    known = set(SOPERATOR["releases"][version]["check_keys"])
    for name, file in extra(hooks=hooks).items():
        assert set(file) == {"content", "config"}, name
        assert set(json.loads(file["config"])) <= known, name


@pytest.mark.parametrize("hooks", HOOKS)
def test_no_entry_drains_undrains_or_asks_the_controller(hooks: str) -> None:
    for file in extra(hooks=hooks).values():
        entry = json.loads(file["config"])
        assert (entry["on_fail"], entry["on_ok"], entry["need_env"]) == ("none", "none", [])
        assert entry["platforms"] == entry["node_states"] == ["any"]
        assert entry["run_in_jail"] is False, "the jail is a network file system"


def test_as_checks_of_the_runner_only_prolog_and_epilog_run() -> None:
    """The health check never: the first check that fails hides all later ones from the runner."""
    for hooks, contexts in (("wrapper", {"none"}), ("runner", {"none", "prolog", "epilog"})):
        entries = [json.loads(file["config"]) for file in extra(hooks=hooks).values()]
        assert {context for entry in entries for context in entry["contexts"]} == contexts
        assert not any("hc_program" in entry["contexts"] for entry in entries)


@pytest.mark.parametrize("hooks", HOOKS)
def test_helm_expands_only_soperators_own_scripts(hooks: str) -> None:
    text = render_text("soperator", hooks=hooks)
    own = re.findall(r"\{\{.*?\}\}", text)
    assert len(own) == len(values(hooks=hooks)["slurmScripts"]) - 1
    assert all("$.Files.Get" in action for action in own)
    assert text.count("{{") == text.count("}}") == len(own)
    assert len(text) < 100_000, "one ConfigMap holds them all, with Soperator's own: 1 MiB"


def test_only_the_three_scripts_are_replaced_and_each_own_one_is_kept() -> None:
    """Not healthCheckConfig (Flux refuses the chart's second key) and not slurmConfig."""
    for hooks, replaced in (
        ("wrapper", {"prolog.sh", "epilog.sh", "hc_program.sh"}),
        ("runner", {"hc_program.sh"}),
    ):
        assert set(values(hooks=hooks)) == {"slurmScripts"}
        assert set(values(hooks=hooks)["slurmScripts"]) == {*replaced, "extra"}
        kept = {name for name in extra(hooks=hooks) if name.startswith("soperator_")}
        assert kept == {f"soperator_{name}" for name in replaced}
        for name in replaced:
            assert f'"slurm_scripts/{name}"' in extra(hooks=hooks)[f"soperator_{name}"]["content"]
            assert f"/soperator_{name}" in values(hooks=hooks)["slurmScripts"][name]


@pytest.mark.parametrize("version", ["1.20.1", "1.22.3", "1.23.3-abc", "0.9"])
def test_releases_that_ignore_the_values_are_refused(version: str) -> None:
    with pytest.raises(UsageError, match=r"ignore these values .* needs Soperator 2\.0 or newer"):
        render_text("soperator", slurm_operator_version=version)


@pytest.mark.parametrize("version", ["2.0.0", "4.1.11", "4.1.11-3f2c1a9b", "5.0.0", "10.1"])
def test_newer_releases_get_the_same_values(version: str) -> None:
    assert values(slurm_operator_version=version) == values()


def test_hold_against_rendered_every_release_that_has_them() -> None:
    minors = {".".join(release.split(".")[:2]) for release in SOPERATOR["releases"]}
    assert {"2.0", "3.0", "4.0", "4.1", "5.0"} <= minors
    assert {release.split(".")[0] for release in SOPERATOR["ignored_by"]} == {"1"}


@pytest.mark.parametrize("version", SOPERATOR["releases"])
def test_a_real_api_server_accepted_what_the_real_charts_made_of_it(version: str) -> None:
    accepted = SOPERATOR["releases"][version]["accepted"]
    for hooks in HOOKS:
        assert {"SlurmCluster", "ConfigMap"} <= set(accepted[hooks])
    assert "NodeSet" in accepted["nodeset"]


def test_the_real_manager_left_slurm_conf_alone_and_mounted_the_scripts() -> None:
    manager = SOPERATOR["manager"]
    assert manager["slurm_conf_changes"] == []
    assert manager["slurm_conf"]["Prolog"] == "/opt/slurm_scripts/prolog.sh"
    assert manager["slurm_conf"]["Epilog"] == "/opt/slurm_scripts/epilog.sh"
    assert manager["slurm_conf"]["HealthCheckProgram"] == "/opt/slurm_scripts/hc_program.sh"
    assert "/var/lib/holdfast" in manager["worker_mounts"]
    assert manager["munge_key_bytes"] == 1024, "copied by the command of install-bridge.md"


def test_the_real_manager_changed_one_file_for_a_setting_and_no_worker_pod_for_the_values() -> None:
    """The record is written only if every object was as before, after the page's removal."""
    manager = SOPERATOR["manager"]
    assert manager["settings_change"] == ["holdfast.yaml"]
    assert manager["values_change_worker_pods"] is False


def test_fluxs_real_controller_took_the_values_in_and_out_at_once() -> None:
    """Its interval is five minutes: without the label of the ConfigMap it would take as long."""
    seconds = SOPERATOR["manager"]["flux"]["seconds"]
    assert seconds.keys() == {"values", "removal"}
    assert max(seconds.values()) < 60
    config_map = yaml.safe_load(render_text("soperator", **{"as": "flux"}))
    assert config_map["metadata"]["labels"]["reconcile.fluxcd.io/watch"] == "Enabled"


def test_for_flux_the_same_values_lie_in_a_config_map() -> None:
    config_map = yaml.safe_load(render_text("soperator", **{"as": "flux"}))
    assert (config_map["kind"], config_map["metadata"]["name"]) == ("ConfigMap", "slurm-cluster")
    assert yaml.safe_load(config_map["data"]["values.yaml"]) == values()


def test_its_configuration_is_valid_and_names_the_whole_catalogue(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text(extra(mounts="/mnt/jail/mnt/training")["holdfast.yaml"]["content"])
    assert config_command(["check", str(file)]) == 0
    read = yaml.safe_load(file.read_text())
    assert list(read["checks"]) == list(CATALOGUE)
    assert read["node"]["mounts"] == ["/mnt/jail/mnt/training"]


def test_a_kill_switch_is_an_entry_like_the_others_and_the_last() -> None:
    found = extra(off="all,gpu_xid")
    assert list(found)[-2:] == ["holdfast.off.all", "holdfast.off.gpu_xid"]
    for name in ("holdfast.off.all", "holdfast.off.gpu_xid"):
        entry = json.loads(found[name]["config"])
        assert set(entry) == set(SOPERATOR["releases"]["5.0.0"]["check_keys"])
        assert (entry["name"], entry["contexts"]) == (name, ["none"])
    assert not [name for name in extra() if name.startswith("holdfast.off")]
