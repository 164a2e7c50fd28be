"""Helm installs, upgrades, rolls back and uninstalls the chart on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from testbed.kube.local import ApiServer, KubectlError
from testbed.kube.monitoring_crds import RELEASES, monitoring_crds
from testbed.paths import cache

from holdfast.version import VERSION
from tests.packages.helm import Helm, HelmError
from tests.packages.test_chart import DEFAULTS, EVERYTHING, IMAGE, OTHER

NAMESPACE = "slurm"
WORKLOADS = ("team-a", "slurm-workers")
"""The other namespaces of ``EVERYTHING``, which must exist before."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("kube")) as running:
        for namespace in (NAMESPACE, *WORKLOADS):
            running.kubectl("create", "namespace", namespace)
        for file in monitoring_crds(max(RELEASES), cache(), print):
            running.kubectl("create", "-f", str(file))
        yield running


@pytest.fixture
def client(helm: Helm, server: ApiServer) -> Helm:
    return replace(helm, kubeconfig=server.kubeconfig)


def everything(server: ApiServer) -> Mapping[str, Any]:
    """All objects of the cluster that Helm could have made or left, each with its content."""
    kinds = server.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    kept = [kind for kind in kinds if kind.split(".")[0] not in ("events", "leases")]
    text = server.kubectl("get", ",".join(kept), "--all-namespaces", "-o", "json")
    return {
        f"{one['kind']}/{one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one
        for one in json.loads(text)["items"]
    }


def deployment(server: ApiServer) -> Any:
    argv = ("-n", NAMESPACE, "get", "deployment", "holdfast-bridge", "-o", "json")
    return json.loads(server.kubectl(*argv))["spec"]["template"]["spec"]["containers"][0]


def test_the_server_takes_every_object_strictly(helm: Helm, chart: Path, server: ApiServer) -> None:
    objects = helm.template(chart, NAMESPACE, EVERYTHING)
    argv = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    created = server.kubectl(*argv, stdin=objects).splitlines()
    assert len(created) == len([one for one in yaml.safe_load_all(objects) if one])
    with pytest.raises(KubectlError, match="replicaz"):
        server.kubectl(*argv, stdin=objects.replace("replicas:", "replicaz:"))


def test_install_upgrade_rollback_uninstall(
    client: Helm, chart: Path, server: ApiServer, tmp_path: Path
) -> None:
    before = everything(server)
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(EVERYTHING))
    to = ("holdfast", str(chart), "-n", NAMESPACE)

    notes = client("install", *to, f"--set=bridge.image={IMAGE}")
    assert f"Holdfast {VERSION} in namespace {NAMESPACE}" in notes
    assert f"kubectl -n {NAMESPACE} rollout status deployment/holdfast-bridge" in notes
    first = made(server, before)
    assert "DaemonSet/slurm/holdfast-agent" not in first
    assert deployment(server)["image"] == IMAGE

    notes = client("upgrade", *to, "-f", str(file), f"--set=bridge.image={OTHER}")
    assert "These kill switches are on: bridge, all" in notes
    second = made(server, before)
    assert {"DaemonSet/slurm/holdfast-agent", "ConfigMap/slurm/holdfast-off"} <= second.keys()
    assert {
        "PodMonitor/slurm/holdfast-agent",
        "PrometheusRule/slurm/holdfast-agent",
    } <= second.keys()
    assert deployment(server)["image"] == OTHER

    # A refused upgrade changes nothing.
    with pytest.raises(HelmError, match="image with its digest"):
        client("upgrade", *to, "--set=bridge.image=holdfast:1")
    assert contents(made(server, before)) == contents(second)

    client("rollback", "holdfast", "1", "-n", NAMESPACE)
    assert contents(made(server, before)) == contents(first)

    client("uninstall", "holdfast", "-n", NAMESPACE)
    after = everything(server)
    assert after.keys() == before.keys()
    assert contents(after) == contents(before)


def test_an_install_that_is_refused_leaves_nothing(
    client: Helm, chart: Path, server: ApiServer
) -> None:
    """Helm keeps a record of a failed release; a values error comes before anything is sent."""
    before = everything(server)
    with pytest.raises(HelmError, match=r"give it with --set bridge\.image="):
        client("install", "holdfast", str(chart), "-n", NAMESPACE)
    assert everything(server).keys() == before.keys()


def test_two_releases_do_not_share_objects(client: Helm, chart: Path, server: ApiServer) -> None:
    """The rights have one name in the cluster: Helm refuses the second release and names the owner."""
    server.kubectl("create", "namespace", "other")
    image = f"--set=bridge.image={DEFAULTS['bridge']['image']}"
    client("install", "holdfast", str(chart), "-n", NAMESPACE, image)
    with pytest.raises(HelmError, match="exists and cannot be imported into the current release"):
        client("install", "holdfast", str(chart), "-n", "other", image)
    client("uninstall", "holdfast", "-n", NAMESPACE)


def made(server: ApiServer, before: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the release added; Helm's own records aside."""
    return {
        name: one
        for name, one in everything(server).items()
        if name not in before and not name.split("/")[-1].startswith("sh.helm.release.")
    }


def contents(objects: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what the server counts."""
    return {
        name: {
            **{key: value for key, value in one.items() if key not in ("metadata", "status")},
            "labels": one["metadata"].get("labels"),
            "annotations": one["metadata"].get("annotations"),
        }
        for name, one in objects.items()
    }
