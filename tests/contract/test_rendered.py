"""A real API server accepts what `holdfast render` prints for Kubernetes, without a warning."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from testbed.kube.local import ApiServer, KubectlError

from holdfast.cli.commands.render import render_text
from holdfast.monitoring.dashboards import DASHBOARDS
from k8s_bridge.render.pod import AUTH


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("kube")) as running:
        running.kubectl("apply", "-f", "-", stdin=render_text("rbac"))
        running.kubectl("create", "namespace", "flux-system")
        yield running


IMAGE = f"registry.example.org/holdfast@sha256:{'0' * 64}"


def dry_run(server: ApiServer, text: str) -> str:
    argv = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    return server.kubectl(*argv, stdin=text)


def test_the_rights_and_the_deployment(server: ApiServer) -> None:
    assert "clusterrole.rbac.authorization.k8s.io/holdfast-bridge" in dry_run(
        server, render_text("rbac")
    )
    server.kubectl("create", "namespace", "123")
    assert "created" in dry_run(server, render_text("deployment", image=IMAGE, namespace="123"))
    for auth in AUTH:
        text = render_text("deployment", image=IMAGE, auth=auth)
        assert "deployment.apps/holdfast-bridge created" in dry_run(server, text)
    output = dry_run(server, render_text("deployment", image=IMAGE))
    assert "deployment.apps/holdfast-bridge created (server dry run)" in output
    assert "configmap/holdfast-bridge created (server dry run)" in output


def test_the_network_policy_and_the_kill_switches(server: ApiServer) -> None:
    output = dry_run(server, render_text("network-policy"))
    assert "networkpolicy.networking.k8s.io/holdfast-bridge created" in output
    output = dry_run(server, render_text("off", switches="bridge,all"))
    assert "configmap/holdfast-off created" in output


@pytest.mark.parametrize("which", DASHBOARDS)
def test_the_dashboards(server: ApiServer, which: str) -> None:
    output = dry_run(server, render_text("dashboard", which=which, **{"as": "configmap"}))
    assert f"configmap/holdfast-dashboard-{which} created (server dry run)" in output


def test_the_daemonset(server: ApiServer) -> None:
    output = dry_run(server, render_text("daemonset", image=IMAGE))
    assert "daemonset.apps/holdfast-agent created (server dry run)" in output
    assert "configmap/holdfast-agent created (server dry run)" in output
    every_node = render_text("daemonset", image=IMAGE, node_selector="", max_unavailable="3")
    assert "daemonset.apps/holdfast-agent created" in dry_run(server, every_node)


@pytest.mark.parametrize(("claim", "auth"), [("", "munge"), ("holdfast-reports", "slurm")])
def test_the_inspections(server: ApiServer, claim: str, auth: str) -> None:
    image = "registry.example.org/holdfast:1"
    own = {"days": "Mon,Fri", "state_claim": claim, "auth": auth}
    text = render_text("inspection-cronjob", image=image, **own)
    assert "cronjob.batch/holdfast-inspection created (server dry run)" in dry_run(server, text)
    with pytest.raises(KubectlError, match="timeZone"):
        dry_run(server, render_text("inspection-cronjob", image=image, time_zone="Europe/Nowhere"))


def test_a_key_that_kubernetes_does_not_know_is_refused(server: ApiServer) -> None:
    """Otherwise the tests here would accept anything."""
    text = render_text("deployment", image=IMAGE)
    with pytest.raises(KubectlError, match="replicaz"):
        dry_run(server, text.replace("replicas:", "replicaz:"))


@pytest.mark.parametrize("hooks", ["wrapper", "runner"])
def test_soperators_values_for_flux(server: ApiServer, hooks: str) -> None:
    text = render_text("soperator", hooks=hooks, **{"as": "flux"})
    assert "configmap/slurm-cluster created (server dry run)" in dry_run(server, text)
