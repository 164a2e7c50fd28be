"""What the machine had before a boot it must have after it, until it is seen to be another machine
or somebody accepts what there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.vocabulary import Action, Mode
from slurm_hooks.checks import disks, gpu_fabric, infiniband, pci_devices, services
from slurm_hooks.evaluation.judge import opened
from slurm_hooks.evaluation.observer import Observer
from slurm_hooks.facts import (
    DiskFacts,
    GpuFabric,
    GpuFacts,
    HostFacts,
    NvmlFacts,
    PcieFacts,
    PciKind,
    PortFacts,
    ServiceFacts,
    SystemFacts,
)
from slurm_hooks.probes.runner import Readings
from slurm_hooks.settings.sections import CheckConfig
from slurm_hooks.tracking import store
from slurm_hooks.tracking.host import HostSeen
from slurm_hooks.tracking.node import TrackedState

TABLE: dict[str, CheckConfig[Any]] = {
    "infiniband": CheckConfig(limits=infiniband.Limits(), mode=Mode.DRAIN),
    "pci_devices": CheckConfig(limits=pci_devices.Limits(), mode=Mode.DRAIN),
    "services": CheckConfig(limits=services.Limits(), mode=Mode.DRAIN),
    "disks": CheckConfig(limits=disks.Limits(), mode=Mode.DRAIN),
    "gpu_fabric": CheckConfig(limits=gpu_fabric.Limits(), mode=Mode.DRAIN),
}
GPUS = ("GPU-a", "GPU-b")
CARDS = ("mlx5_0", "mlx5_1", "mlx5_2")
SWITCHES = ("0000:05:00", "0000:06:00")


def card(name: str, guid: str = "", **change: object) -> PortFacts:
    base = PortFacts(
        device=name,
        port=1,
        state="ACTIVE",
        rate_gbps=400.0,
        link_layer="InfiniBand",
        guid=guid or f"guid of {name}",
    )
    return replace(base, **change)  # type: ignore[arg-type]


def look(
    gpus: Sequence[str] | None = GPUS,
    cards: Sequence[str | PortFacts] = CARDS,
    switches: Sequence[str] = SWITCHES,
) -> Readings:
    facts: dict[str, object] = {
        "ports": tuple(card(one) if isinstance(one, str) else one for one in cards),
        "pci": tuple(PcieFacts(pci=pci, kind=PciKind.NVSWITCH) for pci in switches),
    }
    if gpus is not None:
        boards = tuple(GpuFacts(index=at, uuid=uuid) for at, uuid in enumerate(gpus))
        facts["nvml"] = NvmlFacts(count=len(gpus), gpus=boards)
    probes = {"infiniband", "pcie", "host", "system"} | ({"nvml"} if gpus is not None else set())
    return Readings(facts=facts, looked=set(probes), asked=set(probes))


class Node:
    """An agent's observer over several boots: the open findings, and whether a pass is clean."""

    def __init__(self) -> None:
        self.observer = Observer(0, "boot 0", TrackedState())
        self.boots = 0

    def boot(self) -> None:
        self.boots += 1
        self.observer = Observer(0, f"boot {self.boots}", self.observer.tracked)

    def see(self, readings: Readings, passes: int = 1) -> list[str]:
        for _ in range(passes):
            again = replace(readings, facts=dict(readings.facts))
            self.observer.read_probes(again, log_problem="", uptime_s=1e4)
            self.observer.judge(TABLE)
        return self.open

    @property
    def open(self) -> list[str]:
        found = opened(self.observer.tracked.streaks, TABLE)
        return sorted(f"{one.finding.code} {one.finding.subject}" for one in found)

    @property
    def clean(self) -> bool:
        return self.observer.clean(TABLE)


@pytest.fixture
def node() -> Node:
    node = Node()
    assert node.see(look(), 3) == []
    assert node.clean
    return node


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (look(cards=CARDS[:2]), "IB_MISSING mlx5_2"),
        (look(switches=SWITCHES[:1]), "NVSWITCH_GONE 0000:06:00"),
        (look(cards=()), "IB_MISSING mlx5_0"),
    ],
)
def test_a_missing_device_stays_missing_over_a_boot_until_it_is_found(
    node: Node, left: Readings, told: str
) -> None:
    assert told in node.see(left, 3)
    for _ in range(2):
        node.boot()
        for _ in range(5):
            node.see(left)
            assert not node.clean, "no pass is clean"
        assert told in node.open
    node.see(look(), 3)
    assert node.open == []
    assert node.clean


def test_a_device_lost_while_the_machine_was_off_is_missing_and_must_reappear(
    node: Node,
) -> None:
    node.boot()
    assert node.see(look(cards=CARDS[1:]), 3) == ["IB_MISSING mlx5_0"]
    (found,) = opened(node.observer.tracked.streaks, TABLE)
    assert found.finding.action is Action.WAIT, "it has just booted"
    assert found.finding.detail == "InfiniBand card mlx5_0 is missing since before this boot"


def test_another_machine_inherits_nothing(node: Node) -> None:
    node.boot()
    node.see(look(gpus=("GPU-x", "GPU-y"), cards=[card("mlx5_8", "other")], switches=()), 5)
    assert node.open == []
    assert node.clean


def test_while_the_machine_is_unknown_nothing_is_reported_and_no_pass_is_clean(
    node: Node,
) -> None:
    node.boot()
    silent = look(gpus=None, cards=[card("mlx5_8", "other")], switches=())
    assert node.see(silent, 5) == []
    assert not node.clean
    assert node.see(look(gpus=GPUS[:1], cards=CARDS, switches=()), 2) == [
        "NVSWITCH_GONE 0000:05:00",
        "NVSWITCH_GONE 0000:06:00",
    ]


def test_one_known_card_identifies_a_machine_whose_gpus_were_replaced(node: Node) -> None:
    node.boot()
    assert node.see(look(gpus=("GPU-x",), cards=CARDS[:2]), 3) == ["IB_MISSING mlx5_2"]


def test_names_and_addresses_may_change_at_a_boot(node: Node) -> None:
    node.boot()
    named = [card(f"mlx5_{at + 7}", f"guid of {name}") for at, name in enumerate(CARDS)]
    moved = ("0000:15:00", "0000:16:00")
    assert node.see(look(cards=named, switches=moved), 5) == []
    assert node.see(look(cards=named, switches=moved[:1]), 3) == ["NVSWITCH_GONE 0000:16:00"]


def test_a_card_that_is_missing_is_not_hidden_by_names_that_moved_up(node: Node) -> None:
    node.boot()
    moved = [card("mlx5_0"), card("mlx5_1", "guid of mlx5_2")]
    assert node.see(look(cards=moved), 5) == ["IB_MISSING mlx5_2"]


def test_with_new_names_the_one_that_is_missing_is_named(node: Node) -> None:
    node.boot()
    renamed = [card("ib0", "guid of mlx5_0"), card("ib2", "guid of mlx5_2")]
    assert node.see(look(cards=renamed), 5) == ["IB_MISSING mlx5_1"]


def test_a_resume_by_a_person_accepts_the_present_devices(node: Node) -> None:
    fewer = look(cards=CARDS[:2], switches=SWITCHES[:1])
    node.see(fewer, 3)
    node.boot()
    assert len(node.see(fewer, 3)) == 2
    node.observer.acknowledge()
    assert node.open == []
    node.boot()
    assert node.see(fewer, 5) == []
    assert node.clean
    assert node.see(look(cards=CARDS[:1], switches=SWITCHES[:1]), 3) == ["IB_MISSING mlx5_1"]


def test_returns_stay_with_the_machine_until_a_person_resumes_it(
    node: Node, tmp_path: Path
) -> None:
    node.observer.returned("MOUNT_GONE")
    node.boot()
    node.see(look(), 2)
    path = store.path_in(tmp_path)
    store.save(path, node.observer.tracked)
    assert [one.code for one in store.recall(path).returns] == ["MOUNT_GONE"]
    node.boot()
    node.see(look(gpus=("GPU-x", "GPU-y"), cards=[card("mlx5_8", "other")], switches=()), 2)
    assert node.observer.tracked.returns == (), "another machine"
    for _ in range(1000):
        node.observer.returned("MOUNT_GONE")
    assert len(node.observer.tracked.returns) < 1000
    node.observer.acknowledge()
    assert node.observer.tracked.returns == ()


def test_a_port_that_stays_down_over_a_boot_lets_no_pass_be_clean(node: Node) -> None:
    down = look(cards=[card("mlx5_0"), card("mlx5_1"), card("mlx5_2", state="DOWN")])
    node.see(down, 3)
    node.boot()
    for passes in range(4):
        node.see(down)
        assert not node.clean, passes
    assert node.open == ["IB_DOWN mlx5_2/1"]


def test_a_finding_that_still_waits_makes_no_pass_clean(node: Node) -> None:
    def with_service(*, runs: bool, uptime_s: float) -> Readings:
        seen = look()
        service = ServiceFacts(name="fabricmanager", running=runs)
        seen.facts["system"] = SystemFacts(services=(service,), uptime_s=uptime_s)
        return seen

    node.see(with_service(runs=True, uptime_s=900.0))
    node.boot()
    node.see(with_service(runs=False, uptime_s=20.0), 3)
    assert (node.open, node.clean) == ([], False)
    assert node.see(with_service(runs=False, uptime_s=400.0), 2)
    node.see(with_service(runs=True, uptime_s=500.0), 3)
    assert (node.open, node.clean) == ([], True)

    forming = look()
    boards = tuple(
        GpuFacts(index=at, uuid=uuid, fabric=GpuFabric(state=2, status=0))
        for at, uuid in enumerate(GPUS)
    )
    forming.facts["nvml"] = NvmlFacts(count=2, gpus=boards)
    node.see(forming)
    assert (node.open, node.clean) == ([], False)


def test_a_probe_that_has_not_answered_yet_lets_no_pass_be_clean(node: Node) -> None:
    node.boot()
    first = look()
    first.asked.discard("system")
    first.under_way = {"system"}
    node.see(first)
    assert not node.clean
    node.see(look())
    assert node.clean
    node.see(first)
    assert node.clean, "its last reading still counts"


def test_a_disk_that_is_still_read_only_after_a_boot_is_still_faulty(node: Node) -> None:
    def root(*, read_only: bool) -> Readings:
        seen = look()
        disk = DiskFacts(path="/", free_bytes=1, total_bytes=2, read_only=read_only)
        seen.facts["host"] = HostFacts(disks=(disk,))
        return seen

    node.see(root(read_only=False))
    node.boot()
    assert node.see(root(read_only=True), 2) == ["DISK_READ_ONLY /"]
    node.observer.acknowledge()
    assert node.see(root(read_only=True), 3) == []
    assert node.observer.tracked.host == HostSeen(looked=node.observer.tracked.host.looked)
