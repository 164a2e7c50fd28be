"""What runs beside the loop: it gets each look, ends with the loop, and does nothing with a kill switch."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.slurm.client import SlurmNode
from k8s_bridge.config import BridgeConfig, WorkloadSettings
from k8s_bridge.endpoints.metrics import BridgeMetrics
from k8s_bridge.kube.api import KubeUnavailable
from k8s_bridge.loop import Bridge
from k8s_bridge.main import features
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.rules.rule import RuleMode
from k8s_bridge.rules.settings import RuleSettings
from k8s_bridge.worker_pods import protection
from k8s_bridge.worker_pods.protection import Protection
from k8s_bridge.workloads.kinds import JOB
from k8s_bridge.workloads.recovery import Recovery
from tests.unit.k8s_bridge.fake_cluster import NOON, FakeCluster


class Seen:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.slurm: list[SlurmNode] | None = None
        self.kube: list[KubeNode] | None = None

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def see(self, slurm: list[SlurmNode] | None, kube: list[KubeNode] | None, /) -> None:
        self.slurm, self.kube = slurm, kube


def rule() -> RuleSettings:
    return RuleSettings(name="x", condition="Ready", bad=("True",), mode=RuleMode.DRAIN, hold_s=0)


def test_each_look_is_shown_with_what_the_rules_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(policy=BridgeConfig(rules=(rule(),)))
    config = tmp_path / "holdfast.yaml"
    bridge = Bridge(cluster.slurm, cluster.kube, cluster.policy, config, BridgeMetrics())
    monkeypatch.setattr(bridge.watch, "nodes", lambda: cluster.kube.list_nodes()[0])
    monkeypatch.setattr(bridge.watch, "start", bridge.stop)
    seen = Seen()
    bridge.features = [seen]
    bridge.step(NOON)
    assert seen.slurm is not None
    assert seen.kube is not None
    assert [cause.rule.name for cause in seen.kube[0].causes] == ["x"]
    monkeypatch.setattr(bridge.watch, "nodes", lambda: None)
    bridge.step(NOON)
    assert seen.kube is None
    bridge.run()
    assert seen.calls == ["start", "stop"]


def test_only_what_is_configured_is_on() -> None:
    kube: Any = None
    metrics = BridgeMetrics()

    def on(policy: BridgeConfig) -> list[type]:
        return [type(one) for one in features(kube, policy, lambda: False, metrics)]

    assert on(BridgeConfig()) == []
    assert on(BridgeConfig(worker_pods_namespace="soperator")) == [Protection]
    both = BridgeConfig(workloads=WorkloadSettings(namespaces=("a",)), worker_pods_namespace="b")
    assert on(both) == [Recovery, Protection]


def test_with_a_kill_switch_nothing_is_asked_and_nothing_written() -> None:
    kube: Any = None  # any request would fail
    policy = BridgeConfig(workloads=WorkloadSettings(namespaces=("a",)), worker_pods_namespace="b")
    recovery, protection = Recovery(kube, policy, lambda: True), Protection(kube, "b", lambda: True)
    recovery.see([], [])
    protection.see([], None)
    assert (recovery.step(1.0), protection.step()) == (0, 0)


@pytest.mark.parametrize("which", ["workloads", "worker pods"])
def test_an_error_ends_no_thread_and_stop_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    kube: Any = None
    monkeypatch.setattr(protection, "PAUSE_S", 0.01)
    feature: Recovery | Protection = Protection(kube, "b")
    if which == "workloads":
        policy = BridgeConfig()
        object.__setattr__(policy.workloads, "poll_s", 0.01)  # shorter than may be configured
        feature = Recovery(kube, policy)
    errors = iter((KubeUnavailable("no answer"), ValueError("a defect")))
    done = threading.Event()

    def step(*_: float) -> int:
        error = next(errors, None)
        if error is not None:
            raise error
        done.set()
        return 0

    monkeypatch.setattr(feature, "step", step)
    before = set(threading.enumerate())
    feature.start()
    assert done.wait(60)
    (thread,) = set(threading.enumerate()) - before
    feature.stop()
    thread.join(60)
    assert not thread.is_alive()
    printed = capsys.readouterr().err
    assert "no answer" in printed
    assert "ValueError: a defect" in printed


def test_the_metric_counts_restarts_by_kind() -> None:
    metrics = BridgeMetrics()
    metrics.workload_restarted(JOB)
    text = metrics.exposition()[1].decode()
    assert 'holdfast_bridge_workload_restarts_total{kind="Job"} 1.0' in text
    assert 'holdfast_bridge_workload_restarts_total{kind="JobSet"} 0.0' in text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"namespaces": ("Team",)}, "namespaces must be names of namespaces, got 'Team'"),
        ({"namespaces": ("a", "a")}, "namespaces must name each once, got 'a' twice"),
        ({"max_restarts": 0}, "max_restarts must be between 1 and 20"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        WorkloadSettings(**settings)
    with pytest.raises(ValueError, match="worker_pods_namespace must be the name of a namespace"):
        BridgeConfig(worker_pods_namespace="a/b")
