"""What the agent tracks, what it drops, and what opens and closes a finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.vocabulary import Mode
from slurm_hooks.checks import gpu_count, gpu_ecc, gpu_xid
from slurm_hooks.evaluation.judge import fold, opened
from slurm_hooks.evaluation.observer import demand
from slurm_hooks.facts import GpuFacts, KmsgFacts, NodeFacts, NvmlFacts, PortFacts, XidEvent
from slurm_hooks.settings.sections import CheckConfig
from slurm_hooks.tracking import store
from slurm_hooks.tracking.gpu import GpuSeen
from slurm_hooks.tracking.node import (
    MAX_EVENTS,
    TrackedState,
    aged,
    saw_blind,
    saw_gpus,
    saw_ports,
    with_events,
)
from slurm_hooks.tracking.reboot import acknowledged, booted

PCI = "0000:53:00"
KNOWN = TrackedState(boot_id="a", gpus={3: GpuSeen(uuid="GPU-3", pci=PCI)})


def xid(number: int, seq: int = 1, recovery: str | None = None, pci: str = PCI) -> XidEvent:
    return XidEvent(xid=number, pci=pci, seq=seq, at_s=float(seq), recovery=recovery)


def hear(memory: TrackedState, *events: XidEvent, lost: int = 0) -> TrackedState:
    seq = events[-1].seq if events else None
    return with_events(memory, events, seq=seq, lost=lost, demand=demand)


def numbers(memory: TrackedState) -> list[int]:
    return [event.xid for event in memory.xids]


def test_an_xid_gets_the_index_and_uuid_of_its_gpu() -> None:
    (event,) = hear(KNOWN, xid(79)).xids
    assert (event.gpu, event.uuid) == (3, "GPU-3")


def test_an_xid_before_the_first_pass_gets_them_later() -> None:
    memory = hear(TrackedState(boot_id="a"), xid(79))
    assert memory.xids[0].gpu is None
    gpu = GpuFacts(index=3, uuid="GPU-3", pci=PCI)
    memory, _ = saw_gpus(memory, NvmlFacts(count=1, gpus=(gpu,)), demand, 1.0)
    assert memory.xids[0].gpu == 3


def test_recovery_none_resolves_only_what_a_reset_clears() -> None:
    memory = hear(KNOWN, xid(48, 1), xid(79, 2), xid(48, 3, pci="0000:64:00"))
    memory = hear(memory, xid(154, 9, "None"))
    assert [(event.xid, event.pci) for event in memory.xids] == [
        (79, PCI),
        (48, "0000:64:00"),
        (154, PCI),
    ]


def test_a_reboot_clears_all_but_what_requires_a_replacement() -> None:
    memory = hear(KNOWN, xid(48, 1), xid(79, 2), xid(54, 3), lost=7)
    after = booted(memory, "b", demand)
    assert numbers(after) == [54]
    assert (after.boot_id, after.kmsg_seq, after.lost_records) == ("b", None, 0)
    assert booted(after, "b", demand) is after


def test_another_gpu_at_the_same_index_inherits_nothing() -> None:
    memory = hear(KNOWN, xid(79))
    fresh = GpuFacts(index=3, uuid="GPU-new", pci=PCI, uncorrected=0)
    memory, nvml = saw_gpus(memory, NvmlFacts(count=1, gpus=(fresh,)), demand, 1.0)
    assert memory.xids == ()
    assert nvml.gpus[0].uncorrected_new is None


def test_uncorrected_errors_count_from_the_first_reading_or_the_last_reset() -> None:
    memory, news = KNOWN, []
    for count in (4, 4, 6, 0, 1):
        gpu = GpuFacts(index=3, uuid="GPU-3", pci=PCI, uncorrected=count)
        memory, nvml = saw_gpus(memory, NvmlFacts(count=1, gpus=(gpu,)), demand, 1.0)
        news.append(nvml.gpus[0].uncorrected_new)
    assert news == [None, 0, 2, None, 1]


def test_a_reset_that_shows_in_nvml_resolves_too() -> None:
    asks = GpuFacts(index=3, uuid="GPU-3", pci=PCI, recovery_action=1)
    memory, _ = saw_gpus(hear(KNOWN, xid(119)), NvmlFacts(count=1, gpus=(asks,)), demand, 1.0)
    assert numbers(memory) == [119]
    well = replace(asks, recovery_action=0)
    memory, _ = saw_gpus(memory, NvmlFacts(count=1, gpus=(well,)), demand, 1.0)
    assert numbers(memory) == []


def test_a_lost_gpu_is_still_identified() -> None:
    lost = GpuFacts(index=3, state_code=15)
    _, nvml = saw_gpus(KNOWN, NvmlFacts(count=1, gpus=(lost,)), demand, 1.0)
    assert (nvml.gpus[0].uuid, nvml.gpus[0].pci) == ("GPU-3", PCI)


def test_a_flood_drops_the_least_severe_events() -> None:
    flood = [xid(45, seq) for seq in range(1, 3 * MAX_EVENTS)]
    memory = hear(hear(KNOWN, xid(79, 0)), *flood)
    assert len(memory.xids) == MAX_EVENTS
    assert numbers(memory)[0] == 79


def test_warnings_expire_but_a_fatal_fault_does_not() -> None:
    memory = hear(KNOWN, xid(13, 10), xid(79, 10))
    assert numbers(aged(memory, 10_000.0, demand)) == [79]


def test_links_lost_are_counted_from_a_baseline() -> None:
    memory, ages = KNOWN, []
    for now, count in ((100.0, 5), (110.0, 5), (120.0, 7), (130.0, 0), (140.0, 1), (9e5, 1)):
        port = PortFacts(device="mlx5_0", port=1, state="DOWN", link_downed=count)
        memory, (seen,) = saw_ports(memory, [port], now)
        ages.append(len(seen.downs_age_s or ()))
    assert ages == [0, 0, 2, 2, 3, 0]
    saturated = PortFacts(device="mlx5_0", port=1, state="ACTIVE", link_downed=255)
    memory, (seen,) = saw_ports(memory, [saturated], 9e5)
    assert seen.downs_age_s is None
    assert seen.seen_active


def test_missing_answers_are_counted_by_passes() -> None:
    memory = saw_blind(saw_blind(KNOWN, [], ["nvml"]), ["sysfs"], ["nvml"])
    assert memory.blind == {"nvml": 2}
    assert saw_blind(memory, ["nvml"], []).blind == {}


TABLE: dict[str, CheckConfig[Any]] = {
    "gpu_count": CheckConfig(limits=gpu_count.Limits(), mode=Mode.DRAIN),
    "gpu_ecc": CheckConfig(limits=gpu_ecc.Limits(), mode=Mode.OBSERVE),
    "gpu_xid": CheckConfig(limits=gpu_xid.Limits(), mode=Mode.DRAIN),
}
LOOKED = frozenset({"nvml", "kmsg"})


def count(number: int) -> NodeFacts:
    return NodeFacts(expected_gpus=8, nvml=NvmlFacts(count=number))


def codes(memory: TrackedState) -> list[str]:
    return [entry.finding.code for entry in opened(memory.streaks, TABLE)]


def see(memory: TrackedState, facts: NodeFacts, looked: frozenset[str] = LOOKED) -> TrackedState:
    return replace(memory, streaks=fold(memory.streaks, TABLE, facts, looked, 1.0))


def test_open_and_close_rules_are_apart() -> None:
    memory = see(KNOWN, count(7))
    assert codes(memory) == [], "one pass may be a driver reload"
    memory = see(memory, count(7))
    assert codes(memory) == ["GPU_COUNT"]
    memory = see(memory, count(8))
    assert codes(memory) == ["GPU_COUNT"]
    memory = see(memory, count(8))
    assert codes(memory) == []


def test_a_pass_without_an_answer_changes_nothing() -> None:
    memory = see(see(KNOWN, count(7)), count(7))
    for _ in range(9):
        memory = see(memory, NodeFacts(expected_gpus=8), frozenset({"kmsg"}))
    assert codes(memory) == ["GPU_COUNT"]
    seen_once = see(KNOWN, count(7))
    seen_once = see(seen_once, NodeFacts(expected_gpus=8), frozenset({"kmsg"}))
    assert codes(see(seen_once, count(7))) == ["GPU_COUNT"]


@pytest.mark.parametrize(
    "silence", [{"state_code": 15}, {"errors": (("nvmlDeviceGetHandleByIndex", 999),)}]
)
def test_a_gpu_that_does_not_answer_keeps_its_other_faults(silence: dict[str, Any]) -> None:
    bad = GpuFacts(index=3, uuid="GPU-3", uncorrected_new=1)
    lost = GpuFacts(index=3, uuid="GPU-3", **silence)
    memory = see(KNOWN, NodeFacts(expected_gpus=1, nvml=NvmlFacts(count=1, gpus=(bad,))))
    for _ in range(5):
        memory = see(memory, NodeFacts(expected_gpus=1, nvml=NvmlFacts(count=1, gpus=(lost,))))
    assert codes(memory) == ["ECC_UNCORRECTED"]


def test_a_check_that_is_switched_off_loses_its_streaks() -> None:
    memory = see(see(KNOWN, count(7)), count(7))
    rest = {name: TABLE[name] for name in TABLE if name != "gpu_count"}
    assert fold(memory.streaks, rest, count(7), LOOKED, 1.0) == {}


def test_a_persons_resume_closes_events_but_not_what_is_still_there() -> None:
    facts = replace(count(7), kmsg=KmsgFacts(xids=(xid(79),)))
    memory = see(see(hear(KNOWN, xid(79)), facts), facts)
    assert set(codes(memory)) == {"XID79", "GPU_COUNT"}
    memory = acknowledged(memory, facts)
    assert memory.xids == ()
    assert codes(memory) == ["GPU_COUNT"]


def test_the_tracked_state_survives_a_restart(tmp_path: Path) -> None:
    facts = replace(count(7), kmsg=KmsgFacts(xids=(xid(79),)))
    port = PortFacts(device="mlx5_0", port=1, state="ACTIVE", link_downed=2)
    memory, _ = saw_ports(see(hear(KNOWN, xid(79), lost=2), facts), [port], 5.0)
    memory = saw_blind(memory, [], ["nvml"])
    path = store.path_in(tmp_path / "state")
    store.save(path, memory)
    assert store.load(path) == (memory, "")


def test_an_unreadable_state_starts_empty(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    for text in ("", "{", "[]", '{"version": 1}', '{"version": 99}', "\0"):
        path.write_text(text)
        memory, problem = store.load(path)
        assert memory == TrackedState()
        assert str(path) in problem
