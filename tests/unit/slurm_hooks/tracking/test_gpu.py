"""The tracked counters of a GPU, and the deltas of each reading."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from holdfast.adapters.typed_json import typed
from holdfast.vocabulary import Mode
from slurm_hooks import checks
from slurm_hooks.evaluation.judge import fold, opened
from slurm_hooks.evaluation.observer import demand
from slurm_hooks.facts import GpuDeltas, GpuFabric, GpuFacts, NodeFacts, NvmlFacts
from slurm_hooks.settings.sections import CheckConfig
from slurm_hooks.tracking.gpu import GpuSeen, acknowledged, rebooted, track, was_reset
from slurm_hooks.tracking.node import TrackedState, saw_gpus
from slurm_hooks.tracking.reboot import acknowledged as person_resumed

START = 1_000_000.0
GPU = GpuFacts(
    index=3,
    uuid="GPU-3",
    pci="0000:86:00",
    serial="165",
    uncorrected=0,
    link_replays=(0,) * 18,
    link_recoveries=(0,) * 18,
    link_crc_errors=(0,) * 18,
    pcie_replays=174,
    thermal_violation_ns=0,
    recovery_action=0,
    fabric=GpuFabric(state=3),
)


def with_link(counts: tuple[int, ...], link: int, value: int) -> tuple[int, ...]:
    return (*counts[:link], value, *counts[link + 1 :])


def run(
    *readings: tuple[float, GpuFacts], seen: GpuSeen | None = None
) -> tuple[GpuSeen, GpuDeltas]:
    """Readings at seconds after the start; the tracked GPU and the deltas of the last one."""
    seen, filled = seen or GpuSeen(), GPU
    for after_s, gpu in readings:
        seen, filled = track(seen, gpu, START + after_s)
    return seen, filled.deltas


def test_the_first_reading_is_a_baseline_without_deltas() -> None:
    worn = replace(GPU, uncorrected=7, link_crc_errors=(99,) * 18)
    seen, filled = track(GpuSeen(), worn, START)
    assert filled.uncorrected_new is None
    assert filled.deltas == GpuDeltas(fabric_pending_s=0.0)
    assert (seen.serial, seen.total("uncorrected"), seen.total("link_crc_errors")) == (
        "165", 7, 99 * 18,
    )  # fmt: skip


def test_link_errors_are_counted_in_the_last_hour_and_the_link_is_named() -> None:
    bad = replace(GPU, link_recoveries=with_link(GPU.link_recoveries or (), 7, 2))
    seen, news = run((0, GPU), (10, bad))
    assert (news.link_recoveries, news.link_replays, news.bad_links) == (2, 0, (7,))
    for minute in range(1, 75):
        seen, filled = track(seen, bad, START + 10 + minute * 60)
    assert filled.deltas.link_recoveries == 0, "an hour without another one"


def test_crc_errors_are_judged_by_their_rate() -> None:
    def at(second: int) -> tuple[float, GpuFacts]:
        counts = with_link(GPU.link_crc_errors or (), 4, second * 500)
        return second, replace(GPU, link_crc_errors=counts)

    _, news = run(*(at(second) for second in range(0, 60, 10)))
    assert news.link_crc_per_s is None, "not followed for a minute yet"
    _, news = run(*(at(second) for second in range(0, 130, 10)))
    assert news.link_crc_per_s == pytest.approx(500)
    assert news.bad_links == (4,)


def test_pcie_replays_and_heat_are_rates_of_their_windows() -> None:
    def at(second: int) -> tuple[float, GpuFacts]:
        held_ns = int(second * 0.1e9)
        return second, replace(GPU, pcie_replays=174 + second, thermal_violation_ns=held_ns)

    _, news = run(*(at(second) for second in range(0, 300, 10)))
    assert news.pcie_replays_per_min == pytest.approx(60)
    assert news.thermal_share is None, "ten minutes have not passed"
    _, news = run(*(at(second) for second in range(0, 700, 10)))
    assert news.thermal_share == pytest.approx(0.1)


def test_if_the_driver_separates_them_only_hardware_slowdown_counts_as_heat() -> None:
    def at(second: int) -> tuple[float, GpuFacts]:
        by_both_ns = int(second * 0.5e9)
        return second, replace(
            GPU, thermal_violation_ns=by_both_ns, hw_thermal_slowdown_ns=by_both_ns // 5
        )

    _, news = run(*(at(second) for second in range(0, 700, 10)))
    assert news.thermal_share == pytest.approx(0.1)


def test_a_power_brake_between_two_passes_counts() -> None:
    """It is off at every pass: on for two seconds of every ten, between the passes."""

    def at(second: int) -> tuple[float, GpuFacts]:
        return second, replace(GPU, clock_reasons=0, hw_power_brake_slowdown_ns=int(second * 0.2e9))

    _, news = run(at(0))
    assert news.brake_share is None, "no baseline yet"
    _, news = run(*(at(second) for second in range(0, 70, 10)))
    assert news.brake_share == pytest.approx(12 / 600), "the least share that it can have"
    _, news = run(*(at(second) for second in range(0, 1300, 10)))
    assert news.brake_share == pytest.approx(0.2, rel=0.1)


def test_constant_counters_cause_no_finding_however_high() -> None:
    worn = replace(GPU, link_crc_errors=(10**6,) * 18, thermal_violation_ns=10**15)
    _, news = run(*((second, worn) for second in range(0, 4000, 10)))
    assert news == GpuDeltas(
        link_replays=0, link_recoveries=0, link_crc_per_s=0.0, pcie_replays_per_min=0.0,
        thermal_share=0.0, fabric_pending_s=0.0,
    )  # fmt: skip


def test_a_reset_is_a_new_baseline() -> None:
    bad = replace(GPU, uncorrected=2, link_recoveries=with_link(GPU.link_recoveries or (), 7, 5))
    seen, _ = run((0, GPU), (10, bad))
    assert was_reset(seen, GPU)
    after, filled = track(seen, GPU, START + 20)
    assert filled.uncorrected_new is None
    assert (filled.deltas.link_recoveries, filled.deltas.bad_links) == (None, ())
    again = replace(GPU, uncorrected=1)
    assert track(after, again, START + 30)[1].uncorrected_new == 1
    assert not was_reset(after, again)


def test_a_requirement_that_ended_is_a_reset_and_a_missing_answer_is_not() -> None:
    seen, _ = run((0, replace(GPU, recovery_action=1)))
    assert was_reset(seen, GPU)
    assert not was_reset(seen, GpuFacts(index=3, state_code=15))


def test_a_lost_gpu_keeps_its_name_and_has_no_deltas() -> None:
    seen, _ = run((0, GPU), (10, GPU))
    seen, filled = track(seen, GpuFacts(index=3, state_code=15), START + 20)
    assert (filled.uuid, filled.pci, filled.serial) == ("GPU-3", "0000:86:00", "165")
    assert filled.uncorrected_new is None
    assert filled.deltas == GpuDeltas()
    back, filled = track(seen, replace(GPU, uncorrected=1), START + 30)
    assert back.total("uncorrected") == 1
    assert filled.uncorrected_new == 1, "the baseline was kept"


def test_the_time_the_fabric_is_not_ready() -> None:
    waiting = replace(GPU, fabric=GpuFabric(state=2))
    seen, news = run((0, GPU), (10, waiting), (70, waiting))
    assert news.fabric_pending_s == 60.0
    _, news = run((80, GpuFacts(index=3)), (90, waiting), seen=seen)
    assert news.fabric_pending_s == 80.0, "a pass without an answer does not restart it"
    _, news = run((100, GPU), (110, waiting), seen=seen)
    assert news.fabric_pending_s == 0.0


def test_after_a_reboot_only_the_identity_is_kept() -> None:
    seen, _ = run((0, GPU), (10, replace(GPU, uncorrected=3)))
    assert rebooted(seen) == GpuSeen(uuid="GPU-3", pci="0000:86:00", serial="165")


def test_a_resume_by_a_person_resets_counted_errors() -> None:
    bad = replace(GPU, uncorrected=3, link_recoveries=with_link(GPU.link_recoveries or (), 7, 5))
    seen, news = run((0, GPU), (10, bad))
    assert (news.link_recoveries, news.bad_links) == (5, (7,))
    seen, filled = track(acknowledged(seen), bad, START + 20)
    assert filled.uncorrected_new == 0
    assert (filled.deltas.link_recoveries, filled.deltas.bad_links) == (0, ())
    worse = replace(bad, uncorrected=4)
    assert track(seen, worse, START + 30)[1].uncorrected_new == 1


def test_an_idle_gpu_does_not_change_the_tracked_state_for_a_while() -> None:
    seen, _ = run((0, GPU), (10, GPU))
    same, _ = track(seen, GPU, START + 11)
    assert same.counters is seen.counters


def test_the_tracked_state_is_read_back_from_disk() -> None:
    bad = replace(GPU, uncorrected=3, fabric=GpuFabric(state=1))
    seen, _ = run((0, GPU), (10, bad), (400, bad))
    import json

    assert typed(json.loads(json.dumps(asdict(seen))), GpuSeen) == seen


@pytest.mark.parametrize("check", ["gpu_ecc", "gpu_nvlink_errors"])
def test_a_resume_by_a_person_closes_findings_from_counters(check: str) -> None:
    table = {check: CheckConfig(limits=checks.load(check).limits(), mode=Mode.DRAIN)}
    bad = replace(GPU, uncorrected=3, link_recoveries=with_link(GPU.link_recoveries or (), 7, 5))

    def see(memory: TrackedState, gpu: GpuFacts, after_s: float) -> TrackedState:
        reading = NvmlFacts(count=1, gpus=(gpu,))
        memory, nvml = saw_gpus(memory, reading, demand, START + after_s)
        facts = NodeFacts(expected_gpus=1, nvml=nvml)
        looked = frozenset({"nvml"})
        streaks = fold(memory.streaks, table, facts, looked, START + after_s)
        return replace(memory, streaks=streaks)

    memory = TrackedState(boot_id="b")
    for turn, gpu in enumerate((GPU, bad, bad, bad)):
        memory = see(memory, gpu, turn * 10)
    assert len(opened(memory.streaks, table)) == 1
    memory = person_resumed(memory, NodeFacts(expected_gpus=1))
    assert opened(memory.streaks, table) == ()
    memory = see(see(memory, bad, 50), bad, 60)
    assert opened(memory.streaks, table) == (), "the old errors do not count again"
    worse = replace(bad, uncorrected=4, link_recoveries=with_link((0,) * 18, 7, 6))
    memory = see(see(memory, worse, 70), worse, 80)
    assert len(opened(memory.streaks, table)) == 1
