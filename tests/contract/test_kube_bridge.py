"""The bridge's hands on a real API server, with the rights of its own account and no others."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from testbed.kube import Worker, bridge_kubeconfig, provision
from testbed.kube.local import ApiServer

from holdfast.vocabulary import KubeName
from k8s_bridge.api import Edit, KubeNotFound, KubeRefused, KubeUnavailable
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube import KubeApi
from k8s_bridge.names import DRAINED, FIELD_MANAGER, READY
from k8s_bridge.ownership import Origin, Record
from k8s_bridge.plan import Announcement
from k8s_bridge.snapshot import Condition, KubeNode
from k8s_bridge.watch import NodeWatch

C0, C1 = KubeName("computeinstance-0"), KubeName("computeinstance-1")
AT = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
RECORD = Record(
    origin=Origin.SLURM, reason="holdfast:XID79: x", by="root", at=AT, cordon=True, taint=True
)
TOLD = Announcement(reason="SlurmDrained", note="holdfast:XID79: x", warning=True, since="")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("kube")) as running:
        workers = [
            Worker(pod=f"worker-{i}", node=f"computeinstance-{i}", address=f"10.77.0.{i + 1}")
            for i in range(2)
        ]
        provision(running.kubectl, workers)
        yield running


@pytest.fixture(scope="module")
def policy(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> BridgeConfig:
    file = tmp_path_factory.mktemp("bridge") / "kubeconfig"
    file.write_text(bridge_kubeconfig(server.kubectl, server.plane))
    return BridgeConfig(kubeconfig=str(file), timeout_s=5)


@pytest.fixture(scope="module")
def kube(policy: BridgeConfig) -> KubeApi:
    return KubeApi(policy)


def raw(server: ApiServer, name: str = C0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        server.kubectl("get", "node", name, "-o", "json", "--show-managed-fields")
    )
    return found


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def test_cordon_taint_and_record_are_one_write_and_undone_by_one(
    server: ApiServer, kube: KubeApi
) -> None:
    before = raw(server)["spec"]["taints"]
    after = kube.edit(C0, lambda _: Edit(unschedulable=True, taint="XID79", record=RECORD))
    assert (after.unschedulable, after.taint, after.record) == (True, "XID79", RECORD)
    assert after.cordoned_by == FIELD_MANAGER
    assert [taint for taint in raw(server)["spec"]["taints"] if taint in before] == before
    back = kube.edit(C0, lambda _: Edit(unschedulable=False, untaint=True, forget=True))
    assert (back.unschedulable, back.taint, back.record, back.origin) == (False, None, None, None)
    assert raw(server)["spec"]["taints"] == before


def test_a_cordon_by_kubectl_is_told_from_ours(server: ApiServer, kube: KubeApi) -> None:
    kube.edit(C0, lambda _: Edit(unschedulable=True, record=RECORD))
    server.kubectl("uncordon", C0)
    server.kubectl("cordon", C0)
    seen = kube.node(C0)
    assert seen.record == RECORD
    assert seen.cordoned_by not in ("", FIELD_MANAGER)
    server.kubectl("uncordon", C0)


def test_a_write_between_read_and_patch_is_seen_and_kept(server: ApiServer, kube: KubeApi) -> None:
    asked: list[KubeNode] = []

    def decide(fresh: KubeNode) -> Edit | None:
        asked.append(fresh)
        if len(asked) == 1:
            server.kubectl("taint", "node", C0, "other/taint=x:NoExecute")
        return Edit(taint="XID79")

    kube.edit(C0, decide)
    keys = [taint["key"] for taint in raw(server)["spec"]["taints"]]
    assert len(asked) == 2
    assert {"other/taint", "holdfast.dev/drained"} <= set(keys)
    kube.edit(C0, lambda _: Edit(untaint=True))
    server.kubectl("taint", "node", C0, "other/taint-")


def test_our_conditions_leave_those_of_others_alone(server: ApiServer, kube: KubeApi) -> None:
    def others() -> list[dict[str, Any]]:
        rows = raw(server)["status"]["conditions"]
        return [row for row in rows if not row["type"].startswith("HoldfastSlurm")]

    before = others()
    ready = Condition(
        type=READY, status="True", reason="A", message="m", since="2026-01-01T00:00:00Z"
    )
    drained = Condition(
        type=DRAINED, status="True", reason="Drained", message="m", since="2026-01-01T00:00:00Z"
    )
    kube.patch_conditions(C0, [ready])
    after = kube.patch_conditions(C0, [drained])
    assert after.conditions == {READY: ready, DRAINED: drained}
    assert before
    assert others() == before


def test_an_event_told_twice_is_one_event(server: ApiServer, kube: KubeApi) -> None:
    node = kube.patch_label(C1, "drained")
    assert node.label == "drained"
    kube.announce(node, [TOLD])
    kube.announce(node, [TOLD])
    shown = server.kubectl("get", "events", "--field-selector", f"involvedObject.name={C1}")
    assert shown.count("SlurmDrained") == 1


def test_pages_hold_every_node_once(
    server: ApiServer, kube: KubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k8s_bridge.kube.PAGE", 1)
    nodes, version = kube.list_nodes()
    assert sorted(node.name for node in nodes) == [C0, C1]
    assert version.isdigit()


def test_a_selector_hides_other_nodes(server: ApiServer, policy: BridgeConfig) -> None:
    server.kubectl("label", "node", C1, "role=gpu", "--overwrite")
    chosen = BridgeConfig(kubeconfig=policy.kubeconfig, node_selector="role=gpu")
    assert [node.name for node in KubeApi(chosen).list_nodes()[0]] == [C1]


def test_errors_are_told_apart(kube: KubeApi, policy: BridgeConfig, server: ApiServer) -> None:
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
    until(begun.nodes)
    yield begun
    begun.stop()


def test_the_watch_tells_a_change_at_once(
    server: ApiServer, watch: NodeWatch, wake: threading.Event
) -> None:
    wake.clear()
    begun = time.monotonic()
    server.kubectl("cordon", C1)
    assert wake.wait(5)
    assert time.monotonic() - begun < 20
    until(lambda: {n.name: n for n in watch.nodes() or []}[C1].unschedulable)
    server.kubectl("uncordon", C1)


def test_a_dead_api_server_is_no_view_and_comes_back(
    server: ApiServer, kube: KubeApi, watch: NodeWatch
) -> None:
    server.stop()
    until(lambda: watch.nodes() is None)
    with pytest.raises(KubeUnavailable):
        kube.node(C0)
    server.start()
    server.kubectl("cordon", C0)
    until(lambda: {n.name: n for n in watch.nodes() or []}.get(C0), 20)
    until(lambda: {n.name: n for n in watch.nodes() or []}[C0].unschedulable)
    server.kubectl("uncordon", C0)


def test_a_stopped_watch_ends_with_the_next_change(server: ApiServer, kube: KubeApi) -> None:
    before = set(threading.enumerate())
    watch = NodeWatch(kube, threading.Event())
    watch.start()
    until(watch.nodes)
    watch.stop()
    server.kubectl("label", "node", C0, "stop=now", "--overwrite")
    until(lambda: not set(threading.enumerate()) - before)


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
