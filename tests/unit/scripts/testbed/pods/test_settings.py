"""Configuration files of the machines that run pods."""

from __future__ import annotations

import base64
import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from testbed.inside.cgroups import NEEDED, hierarchies, missing
from testbed.pods import settings
from testbed.shape import (
    CONTROLLER,
    POD_PROGRAMS,
    Shape,
    address,
    kube_name,
    machine_nodes,
    pod_network,
)
from testbed.startup import control_plane

PLAIN = Shape(name="b", nodes=2, slurm="24.11", root="/", layers=("/l",), hooks=True, bridge=True)
SHAPE = dataclasses.replace(PLAIN, pods=(("root", "/machine"),), bridge_image="i@sha256:0")
NAMES = ["system-0", "computeinstance-0", "computeinstance-1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("box")
    control_plane.prepare(made, SHAPE)
    return made


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_the_shape_of_a_box_with_pods_is_kept() -> None:
    assert Shape.from_json(SHAPE.to_json()) == SHAPE
    assert [kube_name(node) for node in machine_nodes(SHAPE)] == NAMES
    assert machine_nodes(PLAIN) == ()
    old = {key: value for key, value in json.loads(PLAIN.to_json()).items() if key != "pods"}
    assert Shape.from_json(json.dumps(old)) == PLAIN


def test_every_machine_has_addresses_of_its_own() -> None:
    networks = [pod_network(node) for node in machine_nodes(SHAPE)]
    assert networks == ["10.78.254.0/24", "10.78.0.0/24", "10.78.1.0/24"]


@pytest.mark.parametrize("name", NAMES)
def test_a_kubelet_authenticates_as_its_node_and_nobody_else(folder: Path, name: str) -> None:
    own = folder / "pods" / name
    kubeconfig = own / "kubelet.kubeconfig"
    assert kubeconfig.stat().st_mode & 0o077 == 0
    content = read(kubeconfig)
    assert content["clusters"][0]["cluster"]["server"] == f"https://{address(CONTROLLER)}:6443"
    certificate = base64.b64decode(content["users"][0]["user"]["client-certificate-data"])
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-subject", "-nameopt", "RFC2253"],
        input=certificate,
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert shown.strip() == f"subject=CN=system:node:{name},O=system:nodes"
    kubelet = read(own / "kubelet.json")
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}
    assert read(own / "arguments.json")["hostname-override"] == name
    assert read(own / "proxy.json")["hostnameOverride"] == name


def test_only_the_controller_has_labels_of_its_own(folder: Path) -> None:
    """The node group labels the others, and a kubelet may not."""
    labelled = {
        name: "node-labels" in read(folder / "pods" / name / "arguments.json") for name in NAMES
    }
    assert labelled == {"system-0": True, "computeinstance-0": False, "computeinstance-1": False}


def test_the_controllers_run_only_in_a_box_with_pods(folder: Path, tmp_path: Path) -> None:
    names = [row["name"] for row in read(folder / "plane.json")]
    controllers = [settings.CONTROLLER_MANAGER, settings.SCHEDULER]
    assert names == ["etcd", "kube-apiserver", *controllers, control_plane.MACHINE]
    for row in read(folder / "plane.json")[2:4]:
        assert row["argv"][0] == str(POD_PROGRAMS / row["name"])
    server = " ".join(read(folder / "plane.json")[1]["argv"])
    assert "TaintNodesByCondition" not in server
    assert "--kubelet-client-certificate=" in server
    control_plane.prepare(tmp_path, PLAIN)
    plain = read(tmp_path / "plane.json")
    assert [row["name"] for row in plain] == ["etcd", "kube-apiserver"]
    assert "--disable-admission-plugins=TaintNodesByCondition" in plain[1]["argv"]


def test_the_hierarchies_of_control_groups_are_read() -> None:
    text = "9:name=systemd:/\n4:memory:/a/b\n3:cpu,cpuacct:/low\n0::/unified\n"
    assert hierarchies(text) == [("name=systemd", "/"), ("memory", "/a/b"), ("cpu,cpuacct", "/low")]
    assert hierarchies("0::/user.slice\n") == []


def test_a_machine_without_the_control_groups_of_a_kubelet_is_found() -> None:
    joined = "4:memory:/\n3:cpu,cpuacct:/low\n2:cpuset:/\n1:pids:/\n0::/\n"
    assert missing(joined) == []
    assert missing("1:name=systemd:/\n0::/\n") == sorted(NEEDED), "version 2 has them all"
    assert missing(joined.replace("pids", "rdma")) == ["pids"]
