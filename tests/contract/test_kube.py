"""The bridge's fake API server changes a Node as a real one does.

Each test runs on the fake of the unit tests and through the real adapter, with the rights of the
bridge's own account, on a real kube-apiserver.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from testbed.kube.local import ApiServer

from holdfast.vocabulary import KubeName
from k8s_bridge.kube.api import Edit, Kube, KubeNotFound
from k8s_bridge.kube.client import KubeApi
from k8s_bridge.model.changes import NodeEvent
from k8s_bridge.model.ownership import BridgeRecord, Origin
from k8s_bridge.model.snapshot import Condition, KubeNode, is_own_cordon
from k8s_bridge.names import DRAINED, FIELD_MANAGER, KEEP_CORDONED, READY
from k8s_bridge.names import RECORD as ANNOTATION
from tests.unit.k8s_bridge.fake_cluster import Clock, FakeKube

C0, C1 = KubeName("computeinstance-0"), KubeName("computeinstance-1")
AT = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
RECORD = BridgeRecord(
    origin=Origin.SLURM, reason="holdfast:XID79: x", by="root", at=AT, cordon=True, taint=True
)
EVENT = NodeEvent(reason="SlurmDrained", note="holdfast:XID79: x", warning=True, since="")
SINCE = "2026-01-01T00:00:00Z"


class Side(ABC):
    """An API server, and a person with kubectl."""

    kube: Kube

    @abstractmethod
    def cordon(self, name: KubeName, *, on: bool) -> None: ...

    @abstractmethod
    def taint(self, name: KubeName, key: str, *, on: bool) -> None: ...

    @abstractmethod
    def annotate(self, name: KubeName, key: str, value: str | None) -> None: ...

    @abstractmethod
    def raw(self, name: KubeName) -> dict[str, Any]: ...

    @abstractmethod
    def events(self, name: KubeName) -> list[str]:
        """Reasons of the events about a node."""

    def taints(self, name: KubeName) -> set[str]:
        return {taint["key"] for taint in self.raw(name)["spec"].get("taints", [])}

    def foreign_conditions(self, name: KubeName) -> list[dict[str, Any]]:
        rows = self.raw(name)["status"]["conditions"]
        return [row for row in rows if not row["type"].startswith("HoldfastSlurm")]


class Fake(Side):
    def __init__(self) -> None:
        self.kube = self._fake = FakeKube(Clock())
        for name in (C0, C1):
            self._fake.add(name)

    def cordon(self, name: KubeName, *, on: bool) -> None:
        self._fake.cordon(name, on)

    def taint(self, name: KubeName, key: str, *, on: bool) -> None:
        self._fake.taint(name, key, on=on)

    def annotate(self, name: KubeName, key: str, value: str | None) -> None:
        self._fake.annotate(name, key, value)

    def raw(self, name: KubeName) -> dict[str, Any]:
        return self._fake.raw[name]

    def events(self, name: KubeName) -> list[str]:
        about = [event["regarding"]["name"] for event in self._fake.events.values()]
        assert set(about) <= {name}
        return [event["reason"] for event in self._fake.events.values()]


class Real(Side):
    def __init__(self, server: ApiServer, kube: KubeApi) -> None:
        self._server, self.kube = server, kube

    def cordon(self, name: KubeName, *, on: bool) -> None:
        self._server.kubectl("cordon" if on else "uncordon", name)

    def taint(self, name: KubeName, key: str, *, on: bool) -> None:
        self._server.kubectl("taint", "node", name, f"{key}=x:NoExecute" if on else f"{key}-")

    def annotate(self, name: KubeName, key: str, value: str | None) -> None:
        self._server.kubectl("annotate", "node", name, f"{key}={value}" if value else f"{key}-")

    def raw(self, name: KubeName) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._server.kubectl("get", "node", name, "-o", "json"))
        return found

    def events(self, name: KubeName) -> list[str]:
        argv = ("get", "events.events.k8s.io", "-A", "-o", "json")
        found = json.loads(self._server.kubectl(*argv))["items"]
        return [one["reason"] for one in found if one["regarding"]["name"] == name]


@pytest.fixture(params=["fake", "real"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    if request.param == "fake":
        yield Fake()
        return
    server = request.getfixturevalue("api_server")
    yield Real(server, KubeApi(request.getfixturevalue("bridge_policy")))
    server.kubectl("uncordon", C0)


def test_cordon_taint_and_record_are_one_write_and_undone_by_one(side: Side) -> None:
    before = side.taints(C0)
    planned = Edit(unschedulable=True, taint="XID79", record=RECORD)
    after = side.kube.edit(side.kube.node(C0), lambda _: planned)
    assert (after.unschedulable, after.taint, after.record) == (True, "XID79", RECORD)
    assert after.cordoned_by == FIELD_MANAGER
    assert before < side.taints(C0)
    back = side.kube.edit(after, lambda _: Edit(unschedulable=False, untaint=True, forget=True))
    assert (back.unschedulable, back.taint, back.record, back.origin) == (False, None, None, None)
    assert side.taints(C0) == before


def test_a_cordon_by_kubectl_is_distinguished_from_the_bridges(side: Side) -> None:
    side.kube.edit(side.kube.node(C0), lambda _: Edit(unschedulable=True, record=RECORD))
    side.cordon(C0, on=False)
    side.cordon(C0, on=True)
    seen = side.kube.node(C0)
    assert seen.record == RECORD
    assert seen.cordoned_by not in ("", FIELD_MANAGER)


def test_a_lost_record_is_rebuilt_from_the_field_managers(side: Side) -> None:
    planned = Edit(unschedulable=True, taint="XID79", record=RECORD)
    side.kube.edit(side.kube.node(C0), lambda _: planned)
    side.annotate(C0, ANNOTATION, None)
    seen = side.kube.node(C0)
    assert (seen.record_text, seen.record) == (
        None,
        BridgeRecord(origin=Origin.SLURM, reason="", cordon=True, taint=True),
    )
    side.kube.edit(seen, lambda _: Edit(unschedulable=False, untaint=True, forget=True))
    assert side.kube.node(C0).record is None


def test_a_person_may_mark_a_cordon_as_theirs(side: Side) -> None:
    side.kube.edit(side.kube.node(C0), lambda _: Edit(unschedulable=True, record=RECORD))
    side.annotate(C0, KEEP_CORDONED, "anna")
    seen = side.kube.node(C0)
    assert seen.cordoned_by == KEEP_CORDONED
    assert not is_own_cordon(seen)
    side.annotate(C0, KEEP_CORDONED, None)
    side.kube.edit(side.kube.node(C0), lambda _: Edit(unschedulable=False, forget=True))


def test_a_write_between_read_and_patch_is_seen_and_kept(side: Side) -> None:
    asked: list[KubeNode] = []
    planned = side.kube.node(C0)

    def decide(fresh: KubeNode) -> Edit | None:
        asked.append(fresh)
        if len(asked) == 1:
            side.taint(C0, "late/taint", on=True)
        return Edit(taint="XID79")

    side.kube.edit(planned, decide)
    assert len(asked) == 2
    assert {"late/taint", "holdfast.dev/drained"} <= side.taints(C0)
    side.kube.edit(side.kube.node(C0), lambda _: Edit(untaint=True))
    side.taint(C0, "late/taint", on=False)


def test_our_conditions_leave_those_of_others_alone(side: Side) -> None:
    before = side.foreign_conditions(C0)
    ready = Condition(type=READY, status="True", reason="A", message="m", since=SINCE)
    drained = Condition(type=DRAINED, status="True", reason="Drained", message="m", since=SINCE)
    side.kube.patch_status(C0, [ready], "idle")
    after = side.kube.patch_status(C0, [drained], None)
    assert after.conditions == {READY: ready, DRAINED: drained}
    assert after.label == "idle"
    assert before
    assert side.foreign_conditions(C0) == before


def test_an_event_created_twice_is_one_event(side: Side) -> None:
    node = side.kube.patch_status(C1, [], "drained")
    assert node.label == "drained"
    side.kube.create_events(node, [EVENT])
    side.kube.create_events(node, [EVENT])
    assert side.events(C1) == ["SlurmDrained"]


def test_every_node_is_listed_and_an_unknown_one_is_not_found(side: Side) -> None:
    nodes, version = side.kube.list_nodes()
    assert sorted(node.name for node in nodes) == [C0, C1]
    assert version.isdigit()
    with pytest.raises(KubeNotFound):
        side.kube.node(KubeName("nowhere"))
    with pytest.raises(KubeNotFound):
        side.kube.edit(KubeNode(name=KubeName("nowhere")), lambda _: Edit(taint="XID79"))
