"""Prometheus' operator accepts the objects of Holdfast: a real API server with its real CRDs, strictly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from testbed.kube.local import ApiServer, KubectlError
from testbed.kube.monitoring_crds import KINDS, RELEASES, monitoring_crds
from testbed.paths import cache

from holdfast.cli.commands.render import render_text

LABELS = "release=kube-prometheus-stack,team=a"
OBJECTS = (
    render_text("prometheus-rules", labels=LABELS),
    render_text("prometheus-rules", drained_percent="25", of="agent", namespace="default"),
    render_text("pod-monitor", labels=LABELS),
    render_text("pod-monitor", interval_s="60", namespace="default"),
    render_text(
        "agent-pod-monitor",
        labels=LABELS,
        pods="slurm.nebius.ai/worker=true",
        pods_namespace="soperator",
        port="9700",
    ),
)


@pytest.fixture(scope="module", params=RELEASES)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("kube")) as running:
        running.kubectl("create", "namespace", "holdfast")
        # `apply` would copy each into an annotation, for which they are too large.
        for file in monitoring_crds(request.param, cache(), print):
            running.kubectl("create", "-f", str(file))
        names = [f"crd/{kind}.monitoring.coreos.com" for kind in KINDS]
        running.kubectl("wait", "--for=condition=Established", *names)
        yield running


def dry_run(server: ApiServer, text: str) -> list[str]:
    argv = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    return server.kubectl(*argv, stdin=text).splitlines()


@pytest.mark.parametrize("text", OBJECTS)
def test_the_server_takes_every_object_strictly(server: ApiServer, text: str) -> None:
    said = dry_run(server, text)
    assert len(said) == len([one for one in yaml.safe_load_all(text) if one])
    assert all(line.endswith("created (server dry run)") for line in said)
    assert all(".monitoring.coreos.com/holdfast-" in line for line in said)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (OBJECTS[0], "expr:", "expression:"),
        (OBJECTS[2], "podMetricsEndpoints:", "endpoints:"),
        (OBJECTS[2], "interval: 30s", "interval: 30 seconds"),
    ],
    ids=["rule", "monitor", "value"],
)
def test_a_wrong_key_or_value_is_refused(
    server: ApiServer, text: str, before: str, after: str
) -> None:
    """Otherwise the test above would accept anything."""
    assert before in text
    with pytest.raises(KubectlError, match=r"unknown field|Invalid value|is invalid|should match"):
        dry_run(server, text.replace(before, after))


def test_each_object_can_be_applied_changed_and_deleted(server: ApiServer, tmp_path: Path) -> None:
    first, second = OBJECTS[2], OBJECTS[2].replace("interval: 30s", "interval: 60s")
    server.kubectl("apply", "-f", "-", stdin=first)
    server.kubectl("apply", "-f", "-", stdin=second)
    ask = ("-n", "holdfast", "get", "podmonitor", "holdfast-bridge")
    field = "-o=jsonpath={.spec.podMetricsEndpoints[0].interval}"
    assert server.kubectl(*ask, field) == "60s"
    server.kubectl("delete", "-f", "-", stdin=second)
    with pytest.raises(KubectlError, match="not found"):
        server.kubectl(*ask)
