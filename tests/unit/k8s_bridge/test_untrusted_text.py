"""What users and other programs write reaches terminals, logs and Kubernetes as one line of plain text."""

from __future__ import annotations

import json

import pytest

from holdfast.adapters.log import Log, use_json
from holdfast.adapters.log_limit import LimitedLog
from holdfast.vocabulary import SlurmName
from k8s_bridge import show
from k8s_bridge.config import BridgeConfig
from k8s_bridge.state_table import Isolation
from tests.unit.k8s_bridge.fake_cluster import HUMAN, FakeCluster

W = SlurmName("worker-0")
HOSTILE = "\x1b]0;owned\x07\u202e\u2028 \nholdfast bridge: forged\r\n" + "\x9b31m" + "é" * 3000


def hostile_cluster() -> FakeCluster:
    """A reason, and an API server's message, that try to write lines and to control a terminal."""
    cluster = FakeCluster(1, BridgeConfig(isolate={"DRAIN": Isolation.TAINT}))
    cluster.slurm.set_drain(W, HOSTILE, HUMAN)
    return cluster


def is_plain(text: str) -> bool:
    return text.isprintable()


def test_conditions_and_events_are_plain_and_short() -> None:
    cluster = hostile_cluster()
    cluster.settle()
    messages = [condition.message for condition in cluster.view().conditions.values()]
    notes = [event["note"] for event in cluster.kube.events.values()]
    assert any("forged" in text for text in messages)
    assert any("forged" in text for text in notes)
    for text in (*messages, *notes):
        assert is_plain(text), text
        assert len(text.encode()) <= 1024


@pytest.mark.parametrize("as_json", [False, True])
def test_each_line_of_the_log_is_the_bridges_own(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("k8s_bridge.writes.apply.log", LimitedLog(Log("bridge")))
    cluster = hostile_cluster()
    cluster.kube.denied.add("computeinstance-0")
    cluster.kube.denial = HOSTILE
    use_json(as_json)
    try:
        cluster.round()
    finally:
        use_json(False)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    for line in lines:
        assert is_plain(line), line
        assert (json.loads(line)["logger"] == "bridge") if as_json else (" bridge: " in line)


@pytest.mark.parametrize("as_json", [False, True])
def test_the_shown_plan_is_plain(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = hostile_cluster()
    found = show.Look(cluster.slurm.nodes(), cluster.kube, cluster.policy, (), False)
    assert show.show_plan(found, as_json=as_json) == 1
    text = capsys.readouterr().out
    assert "forged" in text
    assert all(char.isprintable() or char == "\n" for char in text), text
    if as_json:
        json.loads(text)


def test_the_shown_node_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = hostile_cluster()
    cluster.settle()
    found = show.Look(cluster.slurm.nodes(), cluster.kube, cluster.policy, (), False)
    show.show_node(found, W, as_json=False)
    text = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in text), text
    assert not any(line.startswith("holdfast bridge:") for line in text.splitlines())
