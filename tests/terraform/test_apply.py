"""examples/sandbox, applied to a real API server: no drift, changes, interruptions, and nothing left."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from testbed.kube.local import ApiServer, KubectlError

from tests.terraform.program import Terraform

pytestmark = [pytest.mark.terraform, pytest.mark.timeout(300)]

IN_NAMESPACE = "all,configmaps,serviceaccounts,networkpolicies,roles,rolebindings"
KINDS = (
    f"{IN_NAMESPACE},clusterroles,clusterrolebindings,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,namespaces"
)
FLUX = ("get", "configmap", "slurm-cluster", "--namespace", "flux-system", "--output", "json")


@pytest.fixture(scope="module")
def server(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("kube")) as running:
        running.kubectl("create", "namespace", "flux-system")
        yield running


@pytest.fixture
def here(program: Path, config: Path, tree: Path, server: ApiServer) -> Iterator[Terraform]:
    """The example, initialised, without state. Nothing of it is left afterwards."""
    folder = tree / "examples" / "sandbox"
    for state in folder.glob("terraform.tfstate*"):
        state.unlink()
    terraform = Terraform(program=program, folder=folder, config=config)
    terraform.ok("init")
    yield terraform
    remove(terraform, server)


def remove(terraform: Terraform, server: ApiServer) -> None:
    answer = terraform.run("destroy", "-auto-approve", kubeconfig=str(server.kubeconfig))
    assert answer.status == 0, answer.text[-2000:]
    finalize(server)


def finalize(server: ApiServer) -> None:
    """Ends a namespace that is being deleted, as kube-controller-manager does: none runs here.

    It must be empty: the controller would delete what is in it.
    """
    try:
        namespace = json.loads(server.kubectl("get", "namespace", "holdfast", "--output", "json"))
    except KubectlError:
        return
    assert namespace["status"]["phase"] == "Terminating"
    left = server.kubectl("get", IN_NAMESPACE, "--namespace", "holdfast", "--output", "name")
    assert left.split() == []
    namespace["spec"]["finalizers"] = []
    path = "/api/v1/namespaces/holdfast/finalize"
    server.kubectl("replace", "--raw", path, "--filename", "-", stdin=json.dumps(namespace))


def ours(server: ApiServer) -> set[str]:
    """Names of all objects with Holdfast's label."""
    selected = ("--selector", "app.kubernetes.io/part-of=holdfast", "--all-namespaces")
    return set(server.kubectl("get", KINDS, *selected, "--output", "name").split())


def unchanged(terraform: Terraform, **values: object) -> None:
    """``plan`` finds nothing to do (status 2: there are changes)."""
    answer = terraform.run("plan", "-detailed-exitcode", **values)
    assert answer.status == 0, answer.text[-2000:]


def test_apply_change_and_destroy(here: Terraform, server: ApiServer) -> None:
    values: dict[str, Any] = {"kubeconfig": str(server.kubeconfig)}
    here.ok("init")
    here.ok("apply", "-auto-approve", **values)
    assert {
        "namespace/holdfast",
        "deployment.apps/holdfast-bridge",
        "daemonset.apps/holdfast-agent",
        "networkpolicy.networking.k8s.io/holdfast-bridge",
        "validatingadmissionpolicy.admissionregistration.k8s.io/holdfast-bridge",
    } <= ours(server)
    assert "configmap/holdfast-off" not in ours(server)
    unchanged(here, **values)

    changed = {**values, "checks": {"gpu_xid": {"mode": "drain"}}, "kill_switches": ["all"]}
    here.ok("apply", "-auto-approve", **changed)
    assert "configmap/holdfast-off" in ours(server)
    chart = yaml.safe_load(json.loads(server.kubectl(*FLUX))["data"]["values.yaml"])
    extra = chart["slurmScripts"]["extra"]
    assert extra["holdfast.off.all"]["content"].strip() == "off"
    configuration = yaml.safe_load(extra["holdfast.yaml"]["content"])
    assert configuration["checks"]["gpu_xid"] == {"mode": "drain"}
    assert configuration["node"]["mounts"] == ["/mnt/jail/mnt/training"]
    unchanged(here, **changed)

    here.ok("destroy", "-auto-approve", **changed)
    finalize(server)
    assert ours(server) == set()
    with pytest.raises(KubectlError, match="not found"):
        server.kubectl(*FLUX)


def test_what_a_person_changed_or_deleted_is_made_again(here: Terraform, server: ApiServer) -> None:
    values: dict[str, Any] = {"kubeconfig": str(server.kubeconfig)}
    here.ok("apply", "-auto-approve", **values)
    server.kubectl("delete", "daemonset", "holdfast-agent", "--namespace", "holdfast")
    more = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    rules = json.dumps([{"op": "add", "path": "/rules/-", "value": more}])
    server.kubectl("patch", "clusterrole", "holdfast-bridge", "--type=json", f"--patch={rules}")
    assert here.run("plan", "-detailed-exitcode", **values).status == 2
    here.ok("apply", "-auto-approve", **values)
    assert "daemonset.apps/holdfast-agent" in ours(server)
    assert "pods" not in server.kubectl("get", "clusterrole", "holdfast-bridge", "-o", "yaml")
    unchanged(here, **values)


def test_values_for_flux_that_somebody_else_wrote_are_kept(
    here: Terraform, server: ApiServer
) -> None:
    values: dict[str, Any] = {"kubeconfig": str(server.kubeconfig)}
    mine = "--from-literal=values.yaml=slurmScripts: {}"
    server.kubectl("create", "configmap", "slurm-cluster", "--namespace", "flux-system", mine)
    answer = here.run("apply", "-auto-approve", **values)
    assert answer.status == 1
    assert "conflict" in answer.text
    assert ".data.values.yaml" in answer.text
    assert json.loads(server.kubectl(*FLUX))["data"] == {"values.yaml": "slurmScripts: {}"}
    server.kubectl("delete", "configmap", "slurm-cluster", "--namespace", "flux-system")
    here.ok("apply", "-auto-approve", **values)
    unchanged(here, **values)


def test_an_api_server_that_goes_away_in_the_middle(here: Terraform, server: ApiServer) -> None:
    """The second apply finishes what the first one began."""
    values: dict[str, Any] = {"kubeconfig": str(server.kubeconfig)}
    (here.folder / "given.auto.tfvars.json").write_text(json.dumps(values))
    with subprocess.Popen(
        [str(here.program), "apply", "-auto-approve", "-no-color", "-parallelism=1"],
        cwd=here.folder,
        env=here.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        printed = ""
        for line in running.stdout:
            printed += line
            if "Creation complete" in line:
                server.stop()
                break
        printed += running.stdout.read()
    assert running.returncode == 1
    # Terraform reports each object that it was about to make, with the address. The one that it was just making is
    # cut off instead of refused.
    errors = re.findall(r"^Error: (.*)", re.sub(r"[│╷╵] ?", "", printed), re.MULTILINE)
    assert errors
    for one in errors:
        assert f"127.0.0.1:{server.plane.port}" in one
        assert re.search(r"connect: connection refused|connection reset by peer|\bEOF\b", one), one
    server.start()
    assert ours(server)
    assert "deployment.apps/holdfast-bridge" not in ours(server)
    here.ok("apply", "-auto-approve", **values)
    unchanged(here, **values)


NAMESPACES = ("soperator", "team-a")
WITH_RIGHTS = """
terraform {
  required_providers {
    kubectl = { source = "gavinbunney/kubectl" }
  }
}

variable "kubeconfig" {}

provider "kubectl" {
  config_path = var.kubeconfig
}

module "holdfast" {
  source = "../modules/cluster"
  wait   = false
  bridge = {
    image               = "registry.example.org/holdfast@sha256:%s"
    worker_pods         = {}
    extra_configuration = { bridge = { workloads = { namespaces = ["team-a"] } } }
  }
}
"""


def test_rights_in_other_namespaces(
    program: Path, config: Path, tree: Path, server: ApiServer
) -> None:
    """Those for worker pods and workloads: made once, and removed with the rest."""
    for namespace in NAMESPACES:
        server.kubectl("create", "namespace", namespace)
    folder = tree / "with_rights"
    folder.mkdir()
    (folder / "main.tf").write_text(WITH_RIGHTS % ("0" * 64))
    terraform = Terraform(program=program, folder=folder, config=config)
    terraform.ok("init")
    values = {"kubeconfig": str(server.kubeconfig)}
    terraform.ok("apply", "-auto-approve", **values)
    unchanged(terraform, **values)
    assert objects_in(server, "soperator") == {"holdfast-workers", "holdfast-bridge-workers"}
    assert objects_in(server, "team-a") == {"holdfast-bridge-workloads"}
    terraform.ok("destroy", "-auto-approve", **values)
    finalize(server)
    assert ours(server) == set()
    assert not objects_in(server, "soperator") | objects_in(server, "team-a")


def objects_in(server: ApiServer, namespace: str) -> set[str]:
    kinds = "poddisruptionbudgets,roles,rolebindings"
    found = server.kubectl("get", kinds, "--namespace", namespace, "--output", "name").split()
    return {name.rpartition("/")[2] for name in found}

