"""The kernel log from its records to findings: what is tracked, what is judged at once, what opens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.faults import FAULTS
from holdfast.findings import Finding, Verdict
from holdfast.vocabulary import Action, Mode, Severity
from slurm_hooks import checks
from slurm_hooks.checks import kernel_fs
from slurm_hooks.evaluation.observer import Observer, demand
from slurm_hooks.facts import (
    GpuFacts,
    HostFacts,
    KernelEvent,
    KmsgFacts,
    NodeFacts,
    NvmlFacts,
    XidEvent,
)
from slurm_hooks.facts.kernel import SLOT_S, SLOTS
from slurm_hooks.probes.kmsg.follower import KernelRecord
from slurm_hooks.probes.runner import Readings
from slurm_hooks.settings.sections import CheckConfig
from slurm_hooks.tracking import kernel, reboot, store
from slurm_hooks.tracking import node as remember
from slurm_hooks.tracking.gpu import GpuSeen
from slurm_hooks.tracking.new_events import REPEAT_S, Event, new_events
from slurm_hooks.tracking.node import TrackedState

PCI = "0000:53:00"
SWITCH = "0000:05:00"


def event(code: str, at_s: float = 100.0, **more: object) -> KernelEvent:
    kinds = {"SXID": "sxid", "AER": "aer", "FS_": "fs", "HUNG": "hung_task", "DIMM": "edac"}
    kind = next((kind for start, kind in kinds.items() if code.startswith(start)), "driver")
    known: dict[str, object] = {
        "kind": kind, "code": code, "subject": "part", "text": "words", "seq": int(at_s), "at_s": at_s,
    }  # fmt: skip
    return KernelEvent(**{**known, **more})  # type: ignore[arg-type]


def xid(number: int, at_s: float = 100.0, pci: str = PCI, value: int | None = None) -> XidEvent:
    return XidEvent(xid=number, pci=pci, seq=int(at_s), at_s=at_s, recovery_value=value)


def with_events(*events: Event, memory: TrackedState | None = None) -> TrackedState:
    return remember.with_events(
        memory or TrackedState(boot_id="b"), events, seq=1, lost=0, demand=demand
    )


def judged(
    name: str, *events: Event, gpus: tuple[GpuFacts, ...] = (), **limits: object
) -> list[Finding]:
    check = checks.load(name)
    facts = NodeFacts(
        expected_gpus=8, nvml=NvmlFacts(count=len(gpus), gpus=gpus), kmsg=with_events(*events).kmsg
    )
    return list(check.judge(facts, check.limits(**limits)))


# --- memory ---------------------------------------------------------------------------------------


def test_records_of_one_code_and_device_are_one_event() -> None:
    memory = with_events(
        event("AER_CORRECTED", 10), event("AER_CORRECTED", 20, text="newest", count=3)
    )
    (kept,) = memory.events
    assert (kept.count, kept.text, kept.at_s) == (4, "newest", 20)
    assert kept.slots == ((0, 4),)
    assert len(with_events(event("AER_CORRECTED", subject="other"), memory=memory).events) == 2


def test_a_record_without_a_count_only_updates_the_text() -> None:
    memory = with_events(event("AER_FATAL"), event("AER_FATAL", count=0, text="words SDES"))
    (kept,) = memory.events
    assert (kept.count, kept.text) == (1, "words SDES")
    assert with_events(event("AER_FATAL", count=0)).events == (), "and alone it is no event"


def test_rates_cover_only_the_window() -> None:
    at = [0.0, 500.0, 7200.0, 7300.0, 90_000.0]
    (kept,) = with_events(*(event("DIMM_CORRECTED", at_s) for at_s in at)).events
    assert kept.count == 5
    assert kept.within(3600, 90_000) == 1
    assert kept.within(24 * 3600, 90_000) == 3
    assert len(kept.slots) <= SLOTS


@given(st.lists(st.floats(0, 200_000), max_size=40), st.floats(60, 86_400))
def test_a_rate_never_misses_a_record_nor_counts_one_a_slot_too_old(
    times: list[float], window_s: float
) -> None:
    times = sorted(times)
    for at_s in times[-1:]:
        (kept,) = with_events(*(event("DIMM_CORRECTED", one) for one in times)).events
        seen = kept.within(window_s, at_s)
        assert seen >= sum(at_s - one <= window_s for one in times)
        assert seen <= sum(at_s - one <= window_s + SLOT_S for one in times)


def test_a_flood_keeps_the_state_small_and_the_worst_events_in_it() -> None:
    storm = [
        event("AER_CORRECTED", at, subject=f"0000:{at % 256:02x}:00.{at % 8}") for at in range(3000)
    ]
    memory = with_events(event("AER_FATAL", 0), *storm)
    assert len(memory.events) == kernel.MAX_EVENTS
    assert any(kept.code == "AER_FATAL" for kept in memory.events)
    xids = with_events(xid(79, 0), *(xid(45, at) for at in range(20_000)))
    assert len(xids.xids) == remember.MAX_EVENTS
    assert xids.xids[0].xid == 79


def test_images_of_a_user_do_not_displace_a_fault_of_the_node() -> None:
    """Each damaged image is a separate event, and users can mount any number of images in
    containers."""
    oops = event("KERNEL_OOPS", 0, subject="node", kind="hung_task")
    images = [event("FS_ERROR", 1 + at, subject=f"loop{at}") for at in range(1000)]
    shut = [
        event("FS_SHUTDOWN", 1 + at, subject=f"dm-{at}", fatal=True, confirmed=False)
        for at in range(1000)
    ]
    memory = with_events(event("FS_SHUTDOWN", 0, fatal=True, confirmed=True), oops, *images, *shut)
    assert {"KERNEL_OOPS", "FS_SHUTDOWN"} <= {kept.code for kept in memory.events}
    assert any(kept.confirmed for kept in memory.events)


def test_a_record_of_an_end_clears_only_its_own_event() -> None:
    lost = event("FS_SERVER_LOST", subject="nas1")
    memory = with_events(lost, replace(lost, subject="nas2"), replace(lost, over=True))
    assert [kept.subject for kept in memory.events] == ["nas2"]


def test_a_switch_that_is_initialized_again_has_no_sxids() -> None:
    memory = with_events(
        event("SXID20034", subject=SWITCH),
        event("SXID23001", subject=SWITCH),
        event("SXID20034", subject="0000:06:00"),
        event("SXID", subject=SWITCH, over=True),
    )
    assert [kept.subject for kept in memory.events] == ["0000:06:00"]


def test_events_that_are_not_fatal_expire() -> None:
    memory = with_events(event("OOM_JOB", 0), event("HUNG_TASK", 0), event("MLX5_HEALTH", 0))
    hour = remember.aged(memory, 3601, demand)
    assert {kept.code for kept in hour.events} == {"HUNG_TASK", "MLX5_HEALTH"}
    day = remember.aged(memory, 24 * 3600 + 1, demand)
    assert {kept.code for kept in day.events} == {"MLX5_HEALTH"}
    assert day.kmsg.now_s == 24 * 3600 + 1


def test_a_reboot_or_a_resume_clears_the_events_that_it_can() -> None:
    memory = with_events(event("SXID23001", subject=SWITCH), event("NVME_FAILED"))
    assert reboot.booted(memory, "other boot", demand).events == ()
    assert reboot.acknowledged(memory, NodeFacts(expected_gpus=8)).events == ()


def test_a_reset_of_all_gpus_clears_sxids_that_required_it() -> None:
    gpus = {0: GpuSeen(pci=PCI), 1: GpuSeen(pci="0000:64:00")}
    memory = TrackedState(boot_id="b", gpus=gpus)
    memory = with_events(
        event("SXID20034", subject=SWITCH, fatal=True),
        event("SXID23001", subject=SWITCH, fatal=True),
        memory=memory,
    )
    one = with_events(xid(154, 200, value=0), memory=memory)
    assert len(one.events) == 2
    both = with_events(xid(154, 201, "0000:64:00", value=0), memory=one)
    assert [kept.code for kept in both.events] == ["SXID23001"], "that one requires a reboot"


def test_a_reset_before_the_fault_does_not_count() -> None:
    memory = TrackedState(boot_id="b", gpus={0: GpuSeen(pci=PCI), 1: GpuSeen(pci="0000:64:00")})
    memory = with_events(xid(154, 50, value=0), memory=memory)
    memory = with_events(event("SXID20034", subject=SWITCH, fatal=True), memory=memory)
    memory = with_events(xid(154, 200, "0000:64:00", value=0), memory=memory)
    assert len(memory.events) == 1


def test_events_are_kept_over_a_restart_of_the_agent(tmp_path: Path) -> None:
    memory = with_events(
        xid(154, 60, value=0),
        event("SXID20034", 70, subject=SWITCH, fatal=True),
        event("AER_CORRECTED", 90, count=7),
        memory=TrackedState(boot_id="b", gpus={0: GpuSeen(pci=PCI), 1: GpuSeen(pci="0000:64:00")}),
    )
    memory = with_events(xid(154, 95, value=0), memory=memory)
    path = store.path_in(tmp_path)
    store.save(path, memory)
    again, problem = store.load(path)
    assert problem == ""
    assert again == memory
    assert again.events == memory.events
    assert again.reset_gpus == (PCI,)


# --- news -----------------------------------------------------------------------------------------


def test_a_flood_of_records_is_judged_once() -> None:
    storm = [event("AER_CORRECTED", at / 100) for at in range(1000)]
    assert len(new_events((), storm, demand)) == 1
    killed = [xid(45, at / 1000) for at in range(8000)]
    assert len(new_events((), killed, demand)) == 1
    assert new_events(killed[-1:], [xid(45, 8.5)], demand) == []
    assert len(new_events(killed[-1:], [xid(45, 8.5 + REPEAT_S)], demand)) == 1


def test_what_may_be_fatal_is_always_judged_at_once() -> None:
    assert len(new_events((), [xid(79, 1), xid(79, 3)], demand)) == 2
    assert len(new_events((), [xid(79, 1 + at / 100) for at in range(50)], demand)) == 1
    assert len(new_events((), [xid(154, 1, value=2), xid(154, 1.1, value=0)], demand)) == 2
    assert len(new_events([xid(154, 1, value=2)], [xid(154, 2, value=0)], demand)) == 1
    fatal = event("NVME_FAILED", 1)
    assert len(new_events([fatal], [replace(fatal, at_s=2 + REPEAT_S)], demand)) == 1
    assert new_events([fatal], [replace(fatal, at_s=2)], demand) == []
    assert len(new_events([fatal], [replace(fatal, at_s=2, over=True)], demand)) == 1
    assert new_events([fatal], [replace(fatal, at_s=50, count=0)], demand) == []


# --- checks ---------------------------------------------------------------------------------------


def test_a_fatal_pcie_error_is_the_consequence_of_a_lost_gpu() -> None:
    (alone,) = judged("kernel_pcie_aer", event("AER_FATAL", fatal=True))
    assert (alone.severity, alone.action, alone.cause) == (Severity.FATAL, Action.REBOOT, True)
    (follows,) = judged("kernel_pcie_aer", event("AER_FATAL", 99, fatal=True), xid(79, 100))
    assert not follows.cause
    (apart,) = judged("kernel_pcie_aer", event("AER_FATAL", 10, fatal=True), xid(79, 100))
    assert apart.cause


def test_a_pcie_error_of_a_gpu_itself_names_it() -> None:
    gpu = GpuFacts(index=5, uuid="GPU-y", pci=PCI)
    (found,) = judged(
        "kernel_pcie_aer", event("AER_FATAL", subject=f"{PCI}.0", fatal=True), gpus=(gpu,)
    )
    assert (found.gpu, found.subject) == (5, "GPU-y")
    (port,) = judged(
        "kernel_pcie_aer", event("AER_FATAL", subject="0000:50:01.0", fatal=True), gpus=(gpu,)
    )
    assert (port.gpu, port.subject) == (None, "0000:50:01.0")


def test_corrected_errors_count_by_rate() -> None:
    few = [event("AER_CORRECTED", 100 + at) for at in range(100)]
    assert judged("kernel_pcie_aer", *few) == []
    (found,) = judged("kernel_pcie_aer", *few, event("AER_CORRECTED", 300))
    assert (found.code, found.severity) == ("AER_CORRECTED", Severity.WARN)
    assert "101 recently" in found.detail
    spread = [event("AER_CORRECTED", at * 600.0) for at in range(200)]
    assert judged("kernel_pcie_aer", *spread) == []
    assert judged("kernel_pcie_aer", *few, *few, max_corrected_per_hour=1000) == []
    assert judged("kernel_pcie_aer", *few, *few, ignore=frozenset({"p?rt"})) == []


def test_memory_errors() -> None:
    assert judged("kernel_mce", event("DIMM_CORRECTED", count=10)) == []
    (found,) = judged("kernel_mce", event("DIMM_CORRECTED", count=11, subject="DIMM_A1"))
    assert (found.code, found.action) == ("DIMM_CORRECTED", Action.CONTACT_SUPPORT)
    assert found.detail.startswith("DIMM_A1: ")
    (found,) = judged("kernel_mce", event("DIMM_UNCORRECTED", fatal=True))
    assert found.severity is Severity.FATAL


def test_a_machine_check_of_the_boot_before_drains_nothing() -> None:
    (old,) = judged("kernel_mce", event("MCE_UNCORRECTED", 0.06, fatal=True))
    assert (old.code, old.severity) == ("MCE_BEFORE_BOOT", Severity.WARN)
    assert not FAULTS[old.code].drains
    (new,) = judged("kernel_mce", event("MCE_UNCORRECTED", 61, fatal=True))
    assert (new.code, new.severity) == ("MCE_UNCORRECTED", Severity.FATAL)


def test_disks_and_filesystems() -> None:
    assert judged("kernel_nvme", event("DISK_IO_ERROR", subject="loop7")) == []
    assert judged("kernel_nvme", event("NVME_TIMEOUT", count=3)) == []
    codes = {
        f.code for f in judged("kernel_nvme", event("NVME_TIMEOUT", count=4), event("NVME_FAILED"))
    }
    assert codes == {"NVME_TIMEOUT", "NVME_FAILED"}
    assert judged("kernel_fs", event("FS_SHUTDOWN", subject="loop1", fatal=True)) == []
    shut = event("FS_SHUTDOWN", subject="dm-4", fatal=True, confirmed=True)
    (found,) = judged("kernel_fs", shut)
    assert (found.severity, found.action) == (Severity.FATAL, Action.REBOOT)
    (found,) = judged("kernel_fs", replace(shut, confirmed=False))
    assert (found.severity, found.action) == (Severity.WARN, Action.NONE)
    assert found.code == "FS_SHUTDOWN_UNCONFIRMED"
    assert not FAULTS[found.code].drains
    (found,) = judged("kernel_fs", event("FS_SERVER_LOST", subject="nas1"))
    assert (found.severity, found.action) == (Severity.WARN, Action.WAIT)


def test_killed_tasks() -> None:
    (job,) = judged("kernel_oom", event("OOM_JOB", subject="job 7"))
    assert (job.severity, job.action) == (Severity.INFO, Action.RESTART_JOB)
    (system,) = judged("kernel_oom", event("OOM_SYSTEM"))
    assert system.severity is Severity.WARN
    assert judged("kernel_oom", event("OOM_SYSTEM", count=5), max_system_per_hour=5) == []


def test_a_task_stuck_in_the_driver_is_one_finding_of_the_right_check() -> None:
    stuck = (event("HUNG_TASK", subject="python3"), event("DRIVER_TASK_HUNG", subject="python3"))
    assert judged("kernel_hung_task", *stuck) == []
    (found,) = judged("kernel_driver", *stuck)
    assert (found.code, found.severity) == ("DRIVER_TASK_HUNG", Severity.WARN)
    assert not FAULTS[found.code].drains, "one source alone drains nothing"
    (found,) = judged("kernel_hung_task", event("HUNG_TASK", subject="other"), *stuck)
    assert found.subject == "other"


def test_a_gpu_that_does_not_start_is_named() -> None:
    gpu = GpuFacts(index=3, uuid="GPU-x", pci=PCI)
    (found,) = judged("kernel_driver", event("GPU_INIT_FAILED", subject=f"{PCI}.0"), gpus=(gpu,))
    assert (found.gpu, found.subject) == (3, "GPU-x")


def test_adapters() -> None:
    (found,) = judged("kernel_mlx5", event("MLX5_HEALTH", fatal=True))
    assert (found.severity, found.action) == (Severity.FATAL, Action.REBOOT)
    (found,) = judged("kernel_mlx5", event("MLX5_MODULE"))
    assert found.severity is Severity.WARN
    assert judged("kernel_mlx5", event("MLX5_MODULE", count=2), max_module_per_hour=2) == []


def test_the_severity_in_the_log_takes_precedence_over_the_table() -> None:
    (table,) = judged("nvswitch_sxid", event("SXID20034", subject=SWITCH))
    assert (table.severity, table.action) == (Severity.FATAL, Action.RESET_GPU)
    (milder,) = judged("nvswitch_sxid", event("SXID20034", subject=SWITCH, fatal=False))
    assert (milder.severity, milder.action) == (Severity.WARN, Action.NONE)
    (unknown,) = judged("nvswitch_sxid", event("SXID31999", subject=SWITCH))
    assert unknown.severity is Severity.WARN
    (harder,) = judged("nvswitch_sxid", event("SXID31999", subject=SWITCH, fatal=True))
    assert (harder.severity, harder.action) == (Severity.FATAL, Action.RESET_GPU)
    assert judged("nvswitch_sxid", event("SXID20034"), ignore=frozenset({20034})) == []


def test_whether_the_switch_or_the_gpu_is_the_cause() -> None:
    link = event("SXID20034", 101, subject=SWITCH, fatal=True)
    (follows,) = judged("nvswitch_sxid", link, xid(79, 100))
    assert not follows.cause, "the GPU failed, and its link with it"
    (cause,) = judged("nvswitch_sxid", link, xid(74, 100))
    assert cause.cause, "the GPU's Xid 74 is about the link, not about the GPU"
    fabric = event("SXID23001", 101, subject=SWITCH, fatal=True)
    (switch,) = judged("nvswitch_sxid", fabric, xid(79, 100))
    assert switch.cause
    (of_gpu,) = judged("gpu_xid", fabric, xid(74, 102))
    assert not of_gpu.cause
    worst = Verdict(findings=(of_gpu, switch)).worst
    assert worst is not None
    assert worst.code == "SXID23001"


def test_several_gpus_that_lose_nvlink_at_once_hint_at_the_switch() -> None:
    found = judged("gpu_xid", xid(74, 100), xid(74, 101, "0000:64:00"))
    assert all("2 GPUs at the same time: suspect the NVSwitch" in one.detail for one in found)
    (alone,) = judged("gpu_xid", xid(74, 100))
    assert "suspect" not in alone.detail


@pytest.mark.parametrize("number", [43, 45, 137])
def test_a_consequence_never_ranks_before_its_cause(number: int) -> None:
    found = judged("gpu_xid", xid(48, 100), xid(number, 101), xid(154, 102, value=1))
    worst = Verdict(findings=tuple(found)).worst
    assert worst is not None
    assert (worst.code, worst.action) == ("XID48", Action.RESET_GPU)
    (alone,) = judged("gpu_xid", xid(number))
    assert (alone.cause, alone.severity) == (False, Severity.INFO)


def test_the_strongest_evidence_is_named() -> None:
    gpu = GpuFacts(index=0, pci=PCI, recovery_action=2)
    (found,) = judged("gpu_xid", xid(48), gpus=(gpu,))
    assert found.action is Action.REBOOT
    assert "NVML recovery action 2 (node reboot) requires reboot" in found.detail
    both = judged("gpu_xid", xid(48, 100), xid(154, 101, value=1), gpus=(gpu,))
    assert {one.action for one in both} == {Action.REBOOT}
    (plain,) = judged("gpu_xid", xid(48), gpus=(replace(gpu, recovery_action=0),))
    assert plain.action is Action.RESET_GPU
    assert "requires" not in plain.detail


def test_unknown_actions_of_new_drivers_are_read_by_their_number() -> None:
    flr = replace(xid(154, 101, value=1), recovery="PF FLR")
    found = {one.code: one for one in judged("gpu_xid", xid(31, 100), flr)}
    assert (found["XID31"].severity, found["XID31"].action) == (Severity.FATAL, Action.RESET_GPU)


@pytest.mark.parametrize(
    "name", [n for n in checks.CATALOGUE if n.startswith(("kernel_", "nvswitch"))]
)
def test_limits_out_of_range_are_refused(name: str) -> None:
    limits = checks.load(name).limits
    for field in limits.__dataclass_fields__:
        if field.startswith("max_"):
            with pytest.raises(ValueError, match=f"{field} must be between 0"):
                limits(**{field: -1})
    if hasattr(limits(), "boot_s"):
        with pytest.raises(ValueError, match="boot_s must be between"):
            limits(boot_s=-1.0)


# --- the whole way --------------------------------------------------------------------------------


def record(seq: int, text: str, at_s: float | None = None) -> KernelRecord:
    return KernelRecord(
        facility=0, level=4, seq=seq, at_s=float(seq) if at_s is None else at_s, text=text
    )


def test_an_observer_reads_both_kinds_and_reports_new_events() -> None:
    observer = Observer(8, "boot", TrackedState(boot_id="boot"))
    link = "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up"
    xids = observer.read_kernel_log(
        [
            record(
                1, "NVRM: Xid (PCI:0000:53:00): 74, pid=1, NVLink: fatal error detected on link 3"
            ),
            record(2, link),
        ]
    )
    assert [one.xid for one in xids] == [74]
    assert [one.code for one in observer.new_events] == ["XID74", "SXID20034"]
    assert observer.read_kernel_log([record(3, link, 2.5)]) == []
    assert observer.new_events == []
    (kept,) = observer.tracked.events
    assert kept.count == 2
    assert observer.read_kernel_log([]) == []


UNCONFIRMED = ("FS_SHUTDOWN_UNCONFIRMED", Severity.WARN)


def shut_down(observer: Observer, seq: int, device: str = "dm-4") -> list[tuple[str, Severity]]:
    """The findings after the kernel reported that this filesystem shut itself down."""
    observer.read_kernel_log(
        [record(seq, f"XFS ({device}): Filesystem has been shut down due to log error")]
    )
    found = observer.judge_kernel_log(
        {"kernel_fs": CheckConfig(limits=kernel_fs.Limits(), mode=Mode.DRAIN)}
    )
    return [(entry.finding.code, entry.finding.severity) for entry in found]


def looked(observer: Observer, mounted: frozenset[str] | None) -> None:
    host = HostFacts(mounted=mounted)
    names = {"host"}
    readings = Readings(facts={"host": host}, looked=names, asked=names, wanted=frozenset(names))
    observer.read_probes(readings, log_problem="", uptime_s=100.0)


def test_a_filesystem_that_shut_down_counts_if_it_is_mounted_here() -> None:
    """A user can damage an image on purpose and mount it in a namespace of its own."""
    observer = Observer(8, "boot", TrackedState(boot_id="boot"))
    assert shut_down(observer, 1) == [UNCONFIRMED], "not probed yet"
    looked(observer, None)
    assert shut_down(observer, 2) == [UNCONFIRMED], "could not be probed"
    looked(observer, frozenset({"nvme0n1p1"}))
    assert shut_down(observer, 3) == [UNCONFIRMED], "not mounted here"
    looked(observer, frozenset({"dm-4"}))
    assert shut_down(observer, 4) == [("FS_SHUTDOWN", Severity.FATAL)]
    looked(observer, frozenset())
    assert shut_down(observer, 5) == [("FS_SHUTDOWN", Severity.FATAL)], "unmounted since"
    assert shut_down(observer, 6, "dm-5")[-1] == UNCONFIRMED


def test_a_mounted_filesystem_that_shuts_down_counts_at_once() -> None:
    observer = Observer(8, "boot", TrackedState(boot_id="boot"))
    looked(observer, frozenset({"dm-4"}))
    assert shut_down(observer, 1) == [("FS_SHUTDOWN", Severity.FATAL)]


def test_without_a_kernel_log_nothing_opens() -> None:
    for name in checks.CATALOGUE:
        check = checks.load(name)
        if check.probe == "kmsg":
            blind = NodeFacts(expected_gpus=8)
            assert list(check.judge(blind, check.limits())) == []
            assert list(check.show(blind, check.limits())) == []
            quiet = NodeFacts(expected_gpus=8, kmsg=KmsgFacts())
            assert list(check.judge(quiet, check.limits())) == []
            assert list(check.show(quiet, check.limits()))
