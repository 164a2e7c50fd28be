"""Soperator's values, held against what its chart, its CRD and its check runner take.

The keys were read off Soperator itself by scripts/hold_against, which also rendered its chart with
these values and had the result taken by a real API server with Soperator's CRDs.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.config import main as config_command
from holdfast.cli.render import render_text
from holdfast.version import VERSION
from slurm_hooks.checks import CATALOGUE

DATA = Path(__file__).parents[3] / "data/deploy"
SOPERATOR = json.loads((DATA / "soperator.json").read_text())
GATES = ("wrapper", "runner")


def values(**given: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(render_text("soperator", **given))
    return read


def extra(**given: str) -> Mapping[str, Mapping[str, str]]:
    files: Mapping[str, Mapping[str, str]] = values(**given)["slurmScripts"]["extra"]
    return files


@pytest.mark.parametrize("gate", GATES)
def test_each_entry_has_exactly_the_keys_of_the_runner(gate: str) -> None:
    """One key that the runner does not know, and it skips all checks of the cluster."""
    for name, file in extra(gate=gate).items():
        assert set(file) == {"content", "config"}, name
        assert set(json.loads(file["config"])) == set(SOPERATOR["check_keys"]), name


@pytest.mark.parametrize("gate", GATES)
def test_no_entry_drains_undrains_or_asks_the_controller(gate: str) -> None:
    for file in extra(gate=gate).values():
        entry = json.loads(file["config"])
        assert (entry["on_fail"], entry["on_ok"], entry["need_env"]) == ("none", "none", [])
        assert entry["platforms"] == entry["node_states"] == ["any"]
        assert entry["run_in_jail"] is False, "the jail is a network file system"


def test_as_checks_of_the_runner_only_prolog_and_epilog_run() -> None:
    """The health check never: the first check that fails hides all later ones from the runner."""
    for gate, contexts in (("wrapper", {"none"}), ("runner", {"none", "prolog", "epilog"})):
        entries = [json.loads(file["config"]) for file in extra(gate=gate).values()]
        assert {context for entry in entries for context in entry["contexts"]} == contexts
        assert not any("hc_program" in entry["contexts"] for entry in entries)


@pytest.mark.parametrize("gate", GATES)
def test_helm_finds_nothing_to_expand(gate: str) -> None:
    text = render_text("soperator", gate=gate)
    assert "{{" not in text
    assert "}}" not in text
    assert len(text) < 100_000, "one ConfigMap holds them all, with Soperator's own: 1 MiB"


def test_the_health_check_is_what_the_crd_takes() -> None:
    config = values(health_check_interval_s="60")["healthCheckConfig"]
    assert config["healthCheckInterval"] == 60
    assert {one["state"] for one in config["healthCheckNodeState"]} == {"ANY", "CYCLE"}
    assert {"ANY", "CYCLE"} <= set(SOPERATOR["health_check_states"])
    assert Path(config["healthCheckProgram"]).name in extra()


def test_no_line_of_slurm_conf_is_touched() -> None:
    assert set(values()) == {"healthCheckConfig", "slurmConfig", "slurmScripts"}
    assert set(values()["slurmConfig"]) == {"prolog", "epilog"}
    assert "slurmConfig" not in values(gate="runner")


@pytest.mark.parametrize("gate", GATES)
def test_a_real_api_server_took_what_the_real_chart_made_of_it(gate: str) -> None:
    assert {"SlurmCluster", "ConfigMap"} <= set(SOPERATOR["accepted"][gate])
    assert "NodeSet" in SOPERATOR["accepted"]["nodeset"]


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


# --- the scripts themselves, in folders of their own ----------------------------------------------


class Worker:
    """What a worker's container has, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scripts, self.home = folder / "opt/slurm_scripts", folder / "opt/holdfast"
        self.off, self.said = folder / "etc/holdfast/off", folder / "said"
        self.scripts.mkdir(parents=True)
        self.off.mkdir(parents=True)
        for name in ("prolog", "epilog", "hc_program"):
            self.program(self.scripts / f"{name}.sh", f"echo soperator-{name} >>{self.said}")
        self.gate("wrapper")

    def gate(self, gate: str) -> None:
        for name, file in extra(gate=gate).items():
            text = file["content"]
            own = name == "holdfast_install.sh"  # takes its places from the environment
            for place in () if own else ("/opt/", "/etc/holdfast", "/run/holdfast"):
                text = text.replace(place, f"{self.folder}{place}")
            self.program(self.scripts / name, text.removeprefix("#!/bin/sh\n"))

    def hook(self, name: str, status: int) -> None:
        self.program(self.home / "hooks" / name, f"echo ours-{name} >>{self.said}\nexit {status}")

    def program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run(self, script: str, *words: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": os.environ["PATH"],
            "SLURMD_NODENAME": "worker-0",
            "HOLDFAST_JAIL": str(self.folder / "mnt/jail"),
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_ETC": str(self.folder / "etc/holdfast"),
            "HOLDFAST_SCRIPTS": str(self.scripts),
            "HOLDFAST_RUN": str(self.folder / "run/holdfast"),
            "HOLDFAST_LOG": str(self.folder / "log"),
            "HOLDFAST_SETTLE_S": "0",
        }
        return subprocess.run(
            [str(self.scripts / script), *words],
            capture_output=True, text=True, check=False, env=env, timeout=60,
        )  # fmt: skip

    def order(self) -> list[str]:
        return self.said.read_text().split() if self.said.exists() else []


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path)


def test_a_bad_node_answers_before_soperators_runner_can_hang(worker: Worker) -> None:
    worker.hook("prolog", 10)
    done = worker.run("holdfast_prolog.sh")
    assert done.returncode == 1
    assert done.stdout.startswith("print holdfast: node worker-0 is bad")
    assert worker.order() == ["ours-prolog"]


def test_on_a_good_node_both_are_asked_and_ours_first(worker: Worker) -> None:
    worker.hook("prolog", 0)
    assert worker.run("holdfast_prolog.sh").returncode == 0
    assert worker.order() == ["ours-prolog", "soperator-prolog"]


@pytest.mark.parametrize("script", ["prolog", "epilog", "health_check"])
def test_without_holdfast_all_is_as_soperator_left_it(worker: Worker, script: str) -> None:
    assert worker.run(f"holdfast_{script}.sh").returncode == 0
    assert worker.order() == [f"soperator-{script.replace('health_check', 'hc_program')}"]


@pytest.mark.parametrize(("ours", "theirs", "both"), [(0, 0, 0), (10, 0, 1), (0, 3, 3), (10, 3, 1)])
def test_the_epilog_cleans_up_after_the_job_however_the_node_is(
    worker: Worker, ours: int, theirs: int, both: int
) -> None:
    worker.hook("epilog", ours)
    worker.program(worker.scripts / "epilog.sh", f"echo theirs >>{worker.said}; exit {theirs}")
    assert worker.run("holdfast_epilog.sh").returncode == both
    assert worker.order() == ["ours-epilog", "theirs"]


def test_as_a_check_of_the_runner_the_detail_goes_to_descriptor_3(worker: Worker) -> None:
    worker.gate("runner")
    worker.hook("prolog", 10)
    verdict = worker.folder / "run/holdfast/verdict"
    verdict.parent.mkdir(parents=True)
    verdict.write_text('bad 99 boot holdfast/1\n{"findings": [{"code": "GPU_LOST", "x": 1}]}\n')
    command = f"{worker.scripts}/holdfast_prolog.sh 3>&1 1>{worker.folder}/log 2>&1"
    argv = ["bash", "-l", "-c", command]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout) == (1, "GPU_LOST\n")
    worker.hook("prolog", 0)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_kill_switch_of_the_cluster_comes_and_goes_and_a_persons_own_stays(
    worker: Worker,
) -> None:
    (worker.off / "gpu_thermal").touch()
    (worker.scripts / "holdfast.off.all").touch()
    worker.run("holdfast_health_check.sh")
    assert {file.name for file in worker.off.iterdir()} == {"all", "gpu_thermal"}
    (worker.scripts / "holdfast.off.all").unlink()
    worker.run("holdfast_health_check.sh")
    assert {file.name for file in worker.off.iterdir()} == {"gpu_thermal"}


def jail(worker: Worker, version: str) -> Path:
    """Holdfast as pip leaves it in the jail; its Python answers with that version."""
    place = worker.folder / "mnt/jail/opt/holdfast"
    worker.program(place / "bin/python", f"echo {version}")
    worker.program(place / "hooks/health_check", f"echo ours-health_check >>{worker.said}")
    return place


def test_each_worker_brings_itself_a_copy_from_the_jail(worker: Worker) -> None:
    jail(worker, VERSION)
    assert worker.run("holdfast_health_check.sh").returncode == 0
    deadline = time.monotonic() + 10
    while not worker.home.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert worker.home.is_symlink()
    assert (worker.home / ".brought").read_text().strip() == VERSION
    assert (worker.folder / "etc/holdfast/holdfast.yaml").readlink() == worker.scripts / "holdfast.yaml"  # fmt: skip
    worker.said.unlink()
    worker.run("holdfast_health_check.sh")
    assert worker.order() == ["ours-health_check", "soperator-hc_program"]


def test_a_jail_of_another_version_is_not_brought(worker: Worker) -> None:
    jail(worker, "9.9")
    assert worker.run("holdfast_install.sh", VERSION).returncode == 1
    said = (worker.folder / "log/install.log").read_text()
    assert f"holds 9.9 and these scripts are of {VERSION}" in said
    assert not worker.home.exists()


def test_an_empty_jail_is_said_and_hurts_nobody(worker: Worker) -> None:
    assert worker.run("holdfast_install.sh", VERSION).returncode == 1
    assert "install it there, on a login node" in (worker.folder / "log/install.log").read_text()


def test_an_image_that_holds_holdfast_already_is_left_alone(worker: Worker) -> None:
    jail(worker, VERSION)
    worker.hook("health_check", 0)
    worker.run("holdfast_health_check.sh")
    time.sleep(0.5)
    assert not worker.home.is_symlink()
    assert not list(worker.home.parent.glob("holdfast-*"))
