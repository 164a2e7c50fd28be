"""The bridge's metrics: what a pass counts, and how they are served."""

from __future__ import annotations

import re
import socket
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.errors import Refused, Unavailable
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import SlurmName
from k8s_bridge import service
from k8s_bridge.endpoints import http_server
from k8s_bridge.endpoints.health import Health
from k8s_bridge.endpoints.metrics import BridgeMetrics
from k8s_bridge.loop import Bridge
from k8s_bridge.page.board import Board
from k8s_bridge.service import Tools
from tests.unit.k8s_bridge.fake_cluster import AGENT, NOON, FakeCluster

W0 = SlurmName("worker-0")
PAGE = Path(__file__).parents[4] / "docs" / "reference" / "metrics.md"


@pytest.fixture
def metrics() -> BridgeMetrics:
    return BridgeMetrics()


def bridge_over(
    cluster: FakeCluster, metrics: BridgeMetrics, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Bridge:
    config = folder / "holdfast.yaml"
    bridge = Bridge(cluster.slurm, cluster.kube, cluster.policy, config, metrics)
    monkeypatch.setattr(bridge.watch, "nodes", lambda: cluster.kube.list_nodes()[0])
    return bridge


def value(metrics: BridgeMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"holdfast_bridge_{name}", labels)


def test_writes_and_planned_changes_are_counted_by_kind(
    metrics: BridgeMetrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(3)
    bridge = bridge_over(cluster, metrics, tmp_path, monkeypatch)
    assert value(metrics, "writes_total", change="Isolate") == 0
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    cluster.kube.cordon("computeinstance-1", True)
    assert bridge.step(NOON) == 4  # what the drain changed is told by the next pass
    assert value(metrics, "planned_changes", change="Isolate") == 1
    assert value(metrics, "planned_changes", change="UpdateStatus") == 3
    assert value(metrics, "writes_total", change="Isolate") == 1
    assert value(metrics, "writes_total", change="DrainInSlurm") == 1
    assert value(metrics, "nodes", side="slurm") == value(metrics, "nodes", side="kubernetes") == 3
    cluster.kube.cordon("computeinstance-1", False)
    for _ in range(3):
        bridge.step(NOON)
    assert value(metrics, "writes_total", change="UndrainInSlurm") == 1
    bridge.step(NOON)
    assert value(metrics, "planned_changes", change="UpdateStatus") == 0


def test_rejected_and_late_changes_are_counted(
    metrics: BridgeMetrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(2)
    bridge = bridge_over(cluster, metrics, tmp_path, monkeypatch)
    cluster.kube.denied = {"computeinstance-0"}
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    bridge.step(NOON)
    assert value(metrics, "refusals_total", change="Isolate") == 1
    assert value(metrics, "writes_total", change="Isolate") == 0

    def drain(names: Sequence[SlurmName], reason: str) -> None:
        raise Refused(["scontrol"], "Access/permission denied")

    monkeypatch.setattr(cluster.slurm, "drain", drain)
    cluster.kube.cordon("computeinstance-1", True)
    bridge.step(NOON)
    assert value(metrics, "refusals_total", change="DrainInSlurm") == 1
    assert value(metrics, "writes_total", change="DrainInSlurm") == 0
    cluster.kube.denied.clear()
    seen = cluster.kube.list_nodes()[0]
    monkeypatch.setattr(bridge.watch, "nodes", lambda: seen)
    del cluster.kube.raw["computeinstance-0"]
    cluster.slurm.set_drain(W0, "holdfast:XID48: y", AGENT)
    bridge.step(NOON)
    assert value(metrics, "conflicts_total", change="Isolate") == 1


def test_the_age_of_a_side_grows_while_it_does_not_answer(
    metrics: BridgeMetrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    bridge = bridge_over(cluster, metrics, tmp_path, monkeypatch)
    now = [time.monotonic()]
    monkeypatch.setattr("k8s_bridge.endpoints.metrics.time.monotonic", lambda: now[0])
    bridge.step(NOON)

    def silent(names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
        raise Unavailable(["scontrol"], "no answer in 5 s")

    monkeypatch.setattr(cluster.slurm, "nodes", silent)
    now[0] += 40
    bridge.step(NOON)
    assert value(metrics, "snapshot_age_seconds", side="slurm") == 40
    assert value(metrics, "snapshot_age_seconds", side="kubernetes") == 0
    monkeypatch.setattr(bridge.watch, "nodes", lambda: None)
    now[0] += 5
    bridge.step(NOON)
    assert value(metrics, "snapshot_age_seconds", side="slurm") == 45
    assert value(metrics, "snapshot_age_seconds", side="kubernetes") == 5


def test_the_kill_switch_and_failed_passes_show(
    metrics: BridgeMetrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    bridge = bridge_over(cluster, metrics, tmp_path, monkeypatch)
    (tmp_path / "off").mkdir()
    (tmp_path / "off" / "bridge").touch()
    cluster.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    bridge.step(NOON)
    assert value(metrics, "kill_switch_active") == 1
    assert value(metrics, "planned_changes", change="Isolate") == 0
    (tmp_path / "off" / "bridge").unlink()
    monkeypatch.setattr(bridge.watch, "start", lambda: None)
    steps = iter([lambda: None, lambda: 1 / 0, bridge.stop])
    monkeypatch.setattr(bridge, "step", lambda _: next(steps)())
    bridge.wake.set()
    monkeypatch.setattr(bridge.wake, "wait", lambda _: True)
    bridge.run()
    assert value(metrics, "passes_total") == 3
    assert value(metrics, "failed_passes_total") == 1


@pytest.fixture
def port(metrics: BridgeMetrics) -> Iterator[int]:
    routes = service._probes(Tools(metrics, Health(60), Board()))
    server = http_server.serve(routes, "127.0.0.1", 0)
    assert server is not None
    yield server.port
    server.stop()


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        text: bytes = answer.read()
    return text.decode()


def test_prometheus_reads_what_is_served_whatever_other_clients_do(
    metrics: BridgeMetrics, port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    metrics.passed(failed=False)
    with (
        closing(socket.create_connection(("127.0.0.1", port))),  # sends nothing
        closing(socket.create_connection(("127.0.0.1", port))) as rude,
    ):
        rude.sendall(b"\x00\xff" * 4000 + b"\r\n\r\n")
        found = {family.name for family in text_string_to_metric_families(scraped(port))}
    assert {"holdfast_bridge_passes", "holdfast_bridge_snapshot_age_seconds"} <= found
    assert "holdfast_bridge_process_resident_memory_bytes" in found
    assert capfd.readouterr().err == "", "no traceback, and no line for each scrape"


def test_the_reference_page_lists_each_metric_with_its_meaning(metrics: BridgeMetrics) -> None:
    section = PAGE.read_text().split("## Metrics of the bridge")[1]
    rows = re.findall(
        r"^\| `(holdfast_[a-z_]+)` \| (\w+) \| [^|]*\| (.*) \|$", section, re.MULTILINE
    )
    text = generate_latest(metrics.registry).decode()
    own = r"(holdfast_bridge_(?!process_)(?:(?!_created)\S)+)"
    helps = dict(re.findall(rf"^# HELP {own} (.*)$", text, re.MULTILINE))
    types = dict(re.findall(rf"^# TYPE {own} (.*)$", text, re.MULTILINE))
    assert {name: means for name, _, means in rows} == helps
    assert {name: kind for name, kind, _ in rows} == types
