"""The loop: what it does when a side is silent, and what a kill switch leaves of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.config.load import load_section
from holdfast.errors import ConfigError, Refused, Unavailable
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.main import Bridge, main
from k8s_bridge.names import DRAINED
from k8s_bridge.plan import WriteRecord
from k8s_bridge.refusals import Refusals
from k8s_bridge.snapshot import KubeNode
from tests.unit.k8s_bridge.fake_cluster import AGENT, NOON, World

W0 = SlurmName("worker-0")


@pytest.fixture
def world() -> World:
    return World()


def bridge_over(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bridge:
    bridge = Bridge(world.slurm, world.kube, world.policy, folder / "holdfast.yaml")

    def nodes() -> list[KubeNode]:
        return world.kube.list_nodes()[0]

    monkeypatch.setattr(bridge.watch, "nodes", nodes)
    return bridge


def silent(names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
    raise Unavailable(["scontrol"], "no answer in 5 s")


def test_three_silences_of_slurm_make_conditions_unknown_and_undo_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = bridge_over(world, tmp_path, monkeypatch)
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    bridge.step(NOON)
    asked = world.slurm.nodes
    monkeypatch.setattr(world.slurm, "nodes", silent)
    assert [bridge.step(NOON) for _ in range(3)] == [0, 0, 1]
    assert world.view().conditions[DRAINED].status == "Unknown"
    assert world.view().unschedulable
    assert bridge.step(NOON) == 0
    monkeypatch.setattr(world.slurm, "nodes", asked)
    bridge.step(NOON)
    assert world.view().conditions[DRAINED].status == "True"


def test_nothing_is_written_while_kubernetes_cannot_be_watched(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = bridge_over(world, tmp_path, monkeypatch)
    world.kube.cordon("computeinstance-0", True)
    bridge.step(NOON)
    assert world.node().drained_flag
    monkeypatch.setattr(bridge.watch, "nodes", lambda: None)
    world.kube.cordon("computeinstance-0", False)
    assert bridge.step(NOON) == 0
    assert world.node().drained_flag, "silence is no uncordon"


@pytest.mark.parametrize("switch", ["all", "bridge"])
def test_switched_off_it_tells_and_does_not_act(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    (tmp_path / "off").mkdir()
    (tmp_path / "off" / switch).touch()
    bridge = bridge_over(world, tmp_path, monkeypatch)
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    bridge.step(NOON)
    assert world.view().conditions[DRAINED].status == "True"
    assert not world.view().unschedulable
    (tmp_path / "off" / switch).unlink()
    bridge.step(NOON)
    assert world.view().unschedulable


def test_a_storm_is_taken_in_parts_the_urgent_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(20, BridgeConfig(max_changes=5))
    bridge = bridge_over(world, tmp_path, monkeypatch)
    world.slurm.set_drain(SlurmName("worker-13"), "holdfast:XID79: x", AGENT)
    assert bridge.step(NOON) == 5
    assert world.view(13).unschedulable
    assert world.view(13).conditions[DRAINED].status == "True"
    for _ in range(4):
        bridge.step(NOON)
    assert bridge.step(NOON) == 0


@pytest.mark.parametrize("max_changes", [1, 2, 200])
def test_nodes_that_a_policy_guards_do_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_changes: int
) -> None:
    world = World(6, BridgeConfig(max_changes=max_changes))
    bridge = bridge_over(world, tmp_path, monkeypatch)
    world.kube.denied = {"computeinstance-0", "computeinstance-1"}
    for name in world.slurm.by_name:
        world.slurm.set_drain(name, "holdfast:XID79: x", AGENT)
    for _ in range(24):
        bridge.step(NOON)
    assert [world.view(i).unschedulable for i in range(6)] == [False] * 2 + [True] * 4
    assert all(world.view(i).conditions[DRAINED].status == "True" for i in range(2, 6))


def test_a_denied_write_is_logged_and_retried_with_growing_waits(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bridge = bridge_over(world, tmp_path, monkeypatch)
    world.kube.denied = {"computeinstance-0"}
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    tries = []
    for second in range(400):
        world.kube.asked.clear()
        bridge.step(NOON + timedelta(seconds=second))
        if world.kube.asked:
            tries.append(second)
    assert tries == [0, 5, 15, 35, 75, 155, 315]
    isolations = [text for text in caplog.messages if "Isolate rejected" in text]
    assert len(isolations) == len(tries)
    assert 'nodes "computeinstance-0" is forbidden: denied request: not these' in isolations[0]
    world.kube.denied.clear()
    bridge.step(NOON + timedelta(seconds=700))
    assert world.view().unschedulable


def test_a_refused_drain_in_slurm_does_not_hold_up_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(3, BridgeConfig(max_changes=1))
    bridge = bridge_over(world, tmp_path, monkeypatch)
    write = world.slurm.drain

    def drain(names: Sequence[SlurmName], reason: str) -> None:
        if W0 in names:
            raise Refused(["scontrol"], "Access/permission denied")
        write(names, reason)

    monkeypatch.setattr(world.slurm, "drain", drain)
    for i in range(3):
        world.kube.cordon(f"computeinstance-{i}", True)
    for _ in range(12):
        bridge.step(NOON)
    assert [world.node(i).drained_flag for i in range(3)] == [False, True, True]


def test_another_change_of_the_same_node_does_not_wait(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = bridge_over(world, tmp_path, monkeypatch)
    world.kube.denied = {"computeinstance-0"}
    world.slurm.set_drain(W0, "holdfast:XID79: x", AGENT)
    bridge.step(NOON)
    world.kube.denied.clear()
    world.slurm.set_drain(W0, "holdfast:XID48: y", AGENT)
    bridge.step(NOON)
    assert world.view().taint == "XID48"


def test_a_clock_that_is_set_back_makes_no_wait_longer() -> None:
    refusals, change = Refusals(), WriteRecord(kube=World().view(), record=None)
    refusals.refused(change, NOON)
    assert refusals.due([change], NOON + timedelta(seconds=1)) == []
    assert refusals.due([change], NOON - timedelta(days=1)) == [change]


def test_every_problem_of_the_section_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text("bridge:\n  pol_s: 1\n  poll_s: 0\n  join: by_name\n")
    with pytest.raises(ConfigError) as caught:
        load_section(file, "bridge", BridgeConfig)
    lines = str(caught.value).splitlines()
    assert f"{file}:2: bridge.pol_s: unknown key; did you mean 'poll_s'?" in lines
    assert any(":4: bridge.join: 'by_name' is not one of instance_id, table" in x for x in lines)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"poll_s": 0.0}, "bridge.poll_s: must be between 0.1 and 300"),
        ({"join": "table"}, "nodes must map at least one"),
    ],
)
def test_ranges(wrong: dict[str, object], said: str, tmp_path: Path) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text("bridge: {" + ", ".join(f"{k}: {v}" for k, v in wrong.items()) + "}\n")
    with pytest.raises(ConfigError, match=said):
        load_section(file, "bridge", BridgeConfig)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bridge: {kubeconfig: /nowhere/kubeconfig}", "/nowhere/kubeconfig"),
        ("bridge: {poll_s: soon}", "bridge.poll_s: expected number"),
    ],
)
def test_what_it_cannot_start_with_gets_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text(text)
    assert main(["--config", str(file)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
