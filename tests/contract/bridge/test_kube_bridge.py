"""What needs a real API server: the bridge's rights, pages, the watch, renewed tokens."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed.kube.local import ApiServer

from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube.api import KubeNotFound, KubeRefused, KubeUnavailable
from k8s_bridge.kube.client import KubeApi
from k8s_bridge.kube.watch import NodeWatch
from tests.contract.waits import until

C0, C1 = KubeName("computeinstance-0"), KubeName("computeinstance-1")


@pytest.fixture
def server(api_server: ApiServer) -> ApiServer:
    return api_server


@pytest.fixture
def policy(bridge_policy: BridgeConfig) -> BridgeConfig:
    return bridge_policy


@pytest.fixture
def kube(policy: BridgeConfig) -> KubeApi:
    return KubeApi(policy)


def test_pages_hold_every_node_once(
    server: ApiServer, kube: KubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k8s_bridge.kube.pages.PAGE", 1)
    nodes, version = kube.list_nodes()
    assert sorted(node.name for node in nodes) == [C0, C1]
    assert version.isdigit()


def test_a_selector_hides_other_nodes(server: ApiServer, policy: BridgeConfig) -> None:
    server.kubectl("label", "node", C1, "role=gpu", "--overwrite")
    chosen = BridgeConfig(kubeconfig=policy.kubeconfig, node_selector="role=gpu")
    assert [node.name for node in KubeApi(chosen).list_nodes()[0]] == [C1]


def test_errors_are_distinguished(kube: KubeApi, policy: BridgeConfig, server: ApiServer) -> None:
    with pytest.raises(KubeNotFound):
        kube.node(KubeName("nowhere"))
    with pytest.raises(KubeRefused, match="forbidden"):
        kube._call("DELETE", f"/api/v1/nodes/{C0}")


@pytest.fixture
def wake() -> threading.Event:
    return threading.Event()


@pytest.fixture
def watch(kube: KubeApi, wake: threading.Event) -> Iterator[NodeWatch]:
    """A watch that has its first view, and that ends with the test."""
    begun = NodeWatch(kube, wake)
    begun.start()
    until(begun.nodes, 10)
    yield begun
    begun.stop()


def test_the_watch_reports_a_change_at_once(
    server: ApiServer, watch: NodeWatch, wake: threading.Event
) -> None:
    wake.clear()
    begun = time.monotonic()
    server.kubectl("cordon", C1)
    assert wake.wait(5)
    assert time.monotonic() - begun < 20
    until(lambda: {n.name: n for n in watch.nodes() or []}[C1].unschedulable, 10)
    server.kubectl("uncordon", C1)


def test_without_an_api_server_there_is_no_view_until_it_returns(
    server: ApiServer, kube: KubeApi, watch: NodeWatch
) -> None:
    server.stop()
    until(lambda: watch.nodes() is None, 10)
    with pytest.raises(KubeUnavailable):
        kube.node(C0)
    server.start()
    server.kubectl("cordon", C0)
    until(lambda: {n.name: n for n in watch.nodes() or []}.get(C0), 20)
    until(lambda: {n.name: n for n in watch.nodes() or []}[C0].unschedulable, 10)
    server.kubectl("uncordon", C0)


def test_a_stopped_watch_ends_with_the_next_change(server: ApiServer, kube: KubeApi) -> None:
    before = set(threading.enumerate())
    watch = NodeWatch(kube, threading.Event())
    watch.start()
    until(watch.nodes, 10)
    watch.stop()
    server.kubectl("label", "node", C0, "stop=now", "--overwrite")
    until(lambda: not set(threading.enumerate()) - before, 10)


def test_a_token_that_was_renewed_in_its_file_is_taken_up(
    server: ApiServer, policy: BridgeConfig, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    good = Path(policy.kubeconfig).read_text()
    file.write_text(server.plane.kubeconfig({"token": "expired"}))
    kube = KubeApi(BridgeConfig(kubeconfig=str(file), timeout_s=5))
    with pytest.raises(KubeUnavailable, match="401"):
        kube.node(C0)
    file.write_text(good)
    with pytest.raises(KubeUnavailable, match="401"):
        kube.node(C0)
    assert kube.node(C0).name == C0
