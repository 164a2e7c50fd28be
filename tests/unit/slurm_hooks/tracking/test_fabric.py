"""The tracked state of ports, PCI devices and the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_hooks.evaluation.observer import demand
from slurm_hooks.facts import (
    DiskFacts,
    DStateTask,
    HostFacts,
    NodeFacts,
    PcieFacts,
    PciFacts,
    PciKind,
    PortFacts,
    ServiceFacts,
    SystemFacts,
)
from slurm_hooks.probes.infiniband import COUNTERS
from slurm_hooks.tracking import fabric, store
from slurm_hooks.tracking.fabric import COUNTED_CODES, PortSeen
from slurm_hooks.tracking.host import HostSeen, look_at_host, look_at_system
from slurm_hooks.tracking.node import (
    TrackedState,
    saw_host,
    saw_pci,
    saw_ports,
    saw_system,
)
from slurm_hooks.tracking.reboot import acknowledged, booted

PORT = PortFacts(
    device="mlx5_0",
    port=1,
    state="ACTIVE",
    rate_gbps=400.0,
    link_layer="InfiniBand",
    guid="b83f:d203",
    counters=dict.fromkeys(COUNTERS, 0),
)


def counted(**counters: int) -> PortFacts:
    return replace(PORT, counters={**PORT.counters, **counters})


def see(*looks: PortFacts, every_s: float = 10.0) -> PortFacts:
    known: dict[str, PortSeen] = {}
    facts: tuple[PortFacts, ...] = ()
    for number, port in enumerate(looks):
        known, facts = fabric.look_at_ports(known, [port], 1e6 + number * every_s)
    return facts[0]


def test_the_first_pass_is_a_baseline_for_any_values() -> None:
    news = see(counted(symbol_error=900, local_link_integrity_errors=3)).deltas
    assert (news.symbol_ber, news.integrity) == (None, None)
    again = counted(symbol_error=900, local_link_integrity_errors=3)
    assert see(again, again).deltas.integrity == 0
    assert see(again, again).deltas.symbol_ber == 0.0


def test_symbol_errors_as_a_share_of_the_bits_of_two_hours() -> None:
    # 400 Gb/s for 125 minutes are 3e15 bits
    assert see(PORT, counted(symbol_error=30)).deltas.symbol_ber == pytest.approx(1e-14)
    long = [counted(symbol_error=i) for i in range(0, 2000, 10)]
    assert see(*long, every_s=100).deltas.symbol_ber == pytest.approx(0.1 / 400e9)
    unknown = replace(counted(symbol_error=30), rate_gbps=None)
    assert see(PORT, unknown).deltas.symbol_ber is None


@pytest.mark.parametrize(
    ("name", "full"), [("symbol_error", 65535), ("local_link_integrity_errors", 15)]
)
def test_a_full_counter_no_longer_counts(name: str, full: int) -> None:
    news = see(PORT, counted(**{name: full})).deltas
    assert (news.symbol_ber if name == "symbol_error" else news.integrity) is None
    wide = see(PORT, counted(**{name: full + 1})).deltas
    assert (wide.symbol_ber if name == "symbol_error" else wide.integrity) is not None


def test_a_counter_that_decreased_was_cleared() -> None:
    assert see(counted(symbol_error=500), counted(symbol_error=2)).deltas.symbol_ber is None
    assert (
        see(
            counted(symbol_error=500), counted(symbol_error=2), counted(symbol_error=2)
        ).deltas.symbol_ber
        == 0
    )


def test_link_downed_is_eight_bits_wide_or_more() -> None:
    assert see(replace(PORT, link_downed=255)).downs_age_s is None
    grown = see(replace(PORT, link_downed=300), replace(PORT, link_downed=302)).downs_age_s
    assert grown == (0.0, 0.0)


def test_the_best_rate_is_that_of_an_active_port() -> None:
    down = replace(PORT, state="DOWN", rate_gbps=2.5)
    assert see(down).best_gbps is None
    assert see(PORT, replace(PORT, rate_gbps=200.0)).best_gbps == 400.0


def test_a_missing_card_is_reported_and_a_renamed_one_is_recognised() -> None:
    other = replace(PORT, device="mlx5_1", guid="b83f:d204")
    memory, _ = saw_ports(TrackedState(), [PORT, other], 5.0)
    _, facts = saw_ports(memory, [other], 6.0)
    assert [(p.device, p.present, p.now_called) for p in facts if not p.present] == [
        ("mlx5_0", False, "")
    ]
    _, facts = saw_ports(memory, [other, replace(PORT, device="mlx5_9")], 6.0)
    assert [p.now_called for p in facts if not p.present] == ["mlx5_9"]


def test_a_boot_drops_the_baseline_and_keeps_the_port() -> None:
    memory, _ = saw_ports(TrackedState(boot_id="a"), [replace(PORT, link_downed=3)], 5.0)
    after = booted(memory, "b", demand)
    _, (port,) = saw_ports(after, [replace(counted(symbol_error=9), link_downed=9)], 6.0)
    assert port.deltas.symbol_ber is None
    assert port.downs_age_s == ()
    assert port.best_gbps == 400.0
    assert port.seen_active


def test_a_resume_by_a_person_resets_earlier_errors() -> None:
    memory, _ = saw_ports(TrackedState(), [PORT], 5.0)
    memory, (bad,) = saw_ports(memory, [counted(symbol_error=90)], 6.0)
    assert bad.deltas.symbol_ber
    memory, _ = saw_ports(
        acknowledged(memory, NodeFacts(expected_gpus=0)), [counted(symbol_error=90)], 7.0
    )
    memory, (good,) = saw_ports(memory, [counted(symbol_error=90)], 8.0)
    assert good.deltas.symbol_ber == 0
    assert "IB_BER" in COUNTED_CODES


def test_a_port_keeps_its_last_known_link_layer() -> None:
    assert see(PORT, replace(PORT, link_layer="", state="")).link_layer == "InfiniBand"


# --- PCI ------------------------------------------------------------------------------------------

GPU = PcieFacts(pci="0000:53:00", correctable=4, nonfatal=0, fatal=1)
DISK = DiskFacts(path="/", free_bytes=1, total_bytes=2)
SWITCH = PcieFacts(pci="0000:05:00.0", kind=PciKind.NVSWITCH)


def bus(*looks: list[PcieFacts]) -> PciFacts:
    memory, facts = TrackedState(), PciFacts()
    for number, devices in enumerate(looks):
        memory, facts = saw_pci(memory, devices, 1e6 + 10 * number)
    return facts


def test_pcie_errors_count_from_the_first_pass() -> None:
    assert bus([GPU]).devices[0].fatal_new is None
    assert bus([GPU], [GPU]).devices[0].fatal_new == 0
    worse = replace(GPU, fatal=2, correctable=604)
    (seen,) = bus([GPU], [worse]).devices
    assert (seen.fatal_new, seen.nonfatal_new) == (1, 0)
    assert seen.correctable_per_min == pytest.approx(60.0)


def test_a_device_without_aer_is_not_judged() -> None:
    (seen,) = bus([SWITCH], [SWITCH]).devices
    assert (seen.fatal_new, seen.correctable_per_min) == (None, None)


def test_a_device_that_left_the_bus_is_missing() -> None:
    facts = bus([GPU, SWITCH], [GPU])
    assert facts.gone == ((PciKind.NVSWITCH, "0000:05:00.0"),)
    assert facts.of(PciKind.GPU)[0].pci == "0000:53:00"
    assert bus([GPU, SWITCH], [GPU], [GPU, SWITCH]).gone == ()


# --- the machine ----------------------------------------------------------------------------------


def test_a_disk_that_becomes_read_only_is_faulty_and_one_that_always_was_is_not() -> None:
    def looks(*read_only: bool) -> DiskFacts:
        known, host = HostSeen(), HostFacts()
        for value in read_only:
            disk = DiskFacts(path="/", free_bytes=1, total_bytes=2, read_only=value)
            known, host = look_at_host(known, HostFacts(disks=(disk,)))
        return host.disks[0]

    assert not looks(True, True).turned_read_only
    assert looks(False, True).turned_read_only
    assert looks(False, True, True).turned_read_only
    assert not looks(False, True, False).turned_read_only


def system(*looks: SystemFacts) -> SystemFacts:
    known, facts = HostSeen(), SystemFacts()
    for number, look in enumerate(looks):
        known, facts = look_at_system(known, look, 1000.0 + 60 * number)
    return facts


def sleeping(**change: object) -> SystemFacts:
    base = DStateTask(pid=5, tid=5, start=9, name="x", switches=4)
    return SystemFacts(d_state_tasks=(replace(base, **change),))  # type: ignore[arg-type]


def test_a_task_without_a_context_switch_was_blocked_all_the_time() -> None:
    assert system(sleeping()).d_state_tasks[0].blocked_s is None
    assert system(sleeping(), sleeping(), sleeping()).d_state_tasks[0].blocked_s == 120.0


def test_a_task_that_ran_in_between_counts_as_newly_blocked() -> None:
    facts = system(sleeping(), sleeping(switches=5), sleeping(switches=5))
    assert facts.d_state_tasks[0].blocked_s == 60.0


def test_another_process_with_the_same_pid_counts_as_newly_blocked() -> None:
    assert system(sleeping(), sleeping(start=10)).d_state_tasks[0].blocked_s is None


def test_a_service_that_ran_and_is_no_longer_found_has_stopped() -> None:
    def service(running: bool | None, *, cut: bool = False) -> SystemFacts:
        return SystemFacts(services=(ServiceFacts(name="dcgm", running=running),), cut=cut)

    assert system(service(None)).services[0].running is None
    gone = system(service(True), service(None)).services[0]
    assert (gone.running, gone.ran) == (False, True)
    assert system(service(True), service(None, cut=True)).services[0].running is None


def test_zombies_that_stay() -> None:
    dead = SystemFacts(zombies=((4, 1), (5, 1)))
    assert system(dead).old_zombies is None
    assert system(dead, SystemFacts(zombies=((5, 1), (4, 2)))).old_zombies == 1


def test_all_of_it_survives_a_restart(tmp_path: Path) -> None:
    memory = TrackedState(boot_id="a")
    for number in range(30):
        now = 1e6 + 60 * number
        memory, _ = saw_ports(memory, [counted(symbol_error=number)], now)
        memory, _ = saw_pci(memory, [replace(GPU, correctable=number), SWITCH], now)
        memory, _ = saw_host(memory, HostFacts(disks=(DISK,)), now)
        memory, _ = saw_system(memory, replace(sleeping(), zombies=((4, 1),)), now)
    store.save(tmp_path / "agent.json", memory)
    assert store.load(tmp_path / "agent.json") == (memory, "")
