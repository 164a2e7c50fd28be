"""Each check: what opens it, what does not, and that its only input is its
facts.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.faults import is_known
from holdfast.findings import Finding
from holdfast.vocabulary import Action, Severity
from slurm_hooks import checks
from slurm_hooks.checks import Reading
from slurm_hooks.checks.kernel_log import Most, judge_events
from slurm_hooks.facts import (
    Blind,
    ClockFacts,
    GpuFacts,
    KernelEvent,
    KmsgFacts,
    MountFacts,
    MountState,
    NodeFacts,
    NvmlFacts,
    PcieFacts,
    PortFacts,
    XidEvent,
    pci_address,
)

HEALTHY = GpuFacts(
    index=0,
    uuid="GPU-0",
    pci="0000:53:00",
    uncorrected=0,
    uncorrected_new=0,
    remap_pending=False,
    remap_failed=False,
    recovery_action=0,
    nvlinks=(True,) * 18,
    pcie_width=16,
    pcie_max_width=16,
    clock_reasons=1,
    temperature_c=30,
    thermal_margin_c=58,
    slowdown_margin_c=-2,
)
OTHER = replace(HEALTHY, index=1, uuid="GPU-1", pci="0000:64:00")


def judged(name: str, facts: NodeFacts, **limits: Any) -> list[Finding]:
    check = checks.load(name)
    own = check.limits(**limits)
    readings = list(check.show(facts, own))
    assert all(isinstance(reading, Reading) for reading in readings)
    return list(check.judge(facts, own))


def gpus(*changed: GpuFacts) -> NodeFacts:
    return NodeFacts(expected_gpus=2, nvml=NvmlFacts(count=2, gpus=changed))


def xids(*events: XidEvent) -> NodeFacts:
    return NodeFacts(expected_gpus=8, kmsg=KmsgFacts(xids=events))


def xid(number: int, seq: int = 1, recovery: str | None = None, **more: Any) -> XidEvent:
    return XidEvent(
        xid=number, pci="0000:53:00", seq=seq, at_s=float(seq), recovery=recovery, **more
    )


def test_files_and_catalogue_agree() -> None:
    folder = Path(checks.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "finding", "kernel_log"}
    assert files == set(checks.CATALOGUE)


@pytest.mark.parametrize("name", checks.CATALOGUE)
def test_a_check_does_no_io_and_knows_only_catalogued_codes(name: str) -> None:
    check = checks.load(name)
    assert check.name == name
    tree = ast.parse((Path(checks.__file__).parent / f"{name}.py").read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {
        "__future__", "collections.abc", "dataclasses", "holdfast.faults", "holdfast.findings",
        "holdfast.policy.recovery_action", "holdfast.vocabulary", "holdfast.text.wording", "slurm_hooks.checks",
        "slurm_hooks.checks.finding", "slurm_hooks.checks.kernel_log", "slurm_hooks.facts",
        "slurm_hooks.facts.leftovers",
    }  # fmt: skip
    words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    codes = [w for w in words if isinstance(w, str) and w.isupper() and "_" in w]
    codes = [code for code in codes if not code.startswith("NVML_ERROR")]
    assert all(is_known(code) for code in codes), codes
    with pytest.raises(ValueError, match="open_after must be between"):
        check.limits(open_after=0)


@pytest.mark.parametrize("name", checks.CATALOGUE)
def test_a_healthy_node_and_an_unknown_one_have_no_findings(name: str) -> None:
    healthy = NodeFacts(
        expected_gpus=2,
        nvml=NvmlFacts(count=2, driver="580", gpus=(HEALTHY, OTHER)),
        kmsg=KmsgFacts(),
        mounts=(MountFacts(path="/m", state=MountState.OK, free_bytes=5, total_bytes=9),),
        ports=(PortFacts(device="mlx5_0", port=1, state="ACTIVE", link_layer="InfiniBand"),),
        pcie=tuple(PcieFacts(pci=str(gpu.pci), width=16, max_width=16) for gpu in (HEALTHY, OTHER)),
        clock=ClockFacts(skew_s=0.3, error_s=0.5),
    )
    assert judged(name, healthy) == []
    assert judged(name, NodeFacts(expected_gpus=2)) == []
    silent = GpuFacts(index=0)
    assert judged(name, gpus(silent, replace(silent, index=1))) == []


def test_a_fatal_xid_names_its_gpu() -> None:
    (found,) = judged("gpu_xid", xids(xid(79, gpu=3, uuid="GPU-x", text="fell off")))
    assert (found.code, found.severity, found.gpu) == ("XID79", Severity.FATAL, 3)
    assert (found.subject, found.action) == ("GPU-x", Action.REBOOT)
    assert "fell off" in found.detail


def test_an_application_xid_is_only_information() -> None:
    (found,) = judged("gpu_xid", xids(xid(13)))
    assert found.severity is Severity.INFO


def test_an_unknown_xid_never_drains() -> None:
    (found,) = judged("gpu_xid", xids(xid(9999)))
    assert (found.code, found.severity) == ("XID9999", Severity.WARN)


def test_xid_154_sets_the_action_of_the_fault_before_it() -> None:
    facts = xids(xid(74, 1), xid(154, 2, "GPU Reset Required"))
    found = {finding.code: finding for finding in judged("gpu_xid", facts)}
    assert (found["XID74"].severity, found["XID74"].action) == (Severity.FATAL, Action.RESET_GPU)
    assert found["XID74"].cause
    assert not found["XID154"].cause


def test_an_xid_154_alone_is_a_fault() -> None:
    (found,) = judged("gpu_xid", xids(xid(154, 1, "Node Reboot Required")))
    assert (found.action, found.cause) == (Action.REBOOT, True)
    (found,) = judged("gpu_xid", xids(xid(154, 1, "Something New")))
    assert found.action is Action.REBOOT, "an unknown demand is acted on"
    assert judged("gpu_xid", xids(xid(154, 1, "None"))) == []


def test_an_xid_154_long_after_a_fault_does_not_belong_to_it() -> None:
    facts = xids(xid(13, 1), xid(154, 500, "GPU Reset Required"))
    found = {finding.code: finding for finding in judged("gpu_xid", facts)}
    assert found["XID13"].severity is Severity.INFO
    assert found["XID154"].cause


def test_a_consequence_never_outranks_its_cause() -> None:
    (found,) = judged("gpu_xid", xids(xid(45, consequence=True)))
    assert not found.cause


def test_ignored_numbers() -> None:
    assert judged("gpu_xid", xids(xid(79)), ignore=frozenset({79})) == []


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("gpu_lost", {"state_code": 15}, "GPU_LOST"),
        ("gpu_recovery", {"state_code": 16}, "GPU_RECOVERY_ACTION"),
        ("gpu_recovery", {"recovery_action": 1}, "GPU_RECOVERY_ACTION"),
        ("gpu_row_remap", {"remap_pending": True}, "ROW_REMAP_PENDING"),
        ("gpu_row_remap", {"remap_failed": True}, "ROW_REMAP_FAILED"),
        ("gpu_ecc", {"uncorrected": 9, "uncorrected_new": 1}, "ECC_UNCORRECTED"),
        ("gpu_nvlink", {"nvlinks": (True,) * 17 + (False,)}, "NVLINK_DOWN"),
        ("gpu_thermal", {"clock_reasons": 0x40}, "GPU_THERMAL"),
        ("gpu_thermal", {"clock_reasons": 0x8}, "GPU_THERMAL"),
        ("gpu_thermal", {"thermal_margin_c": -2}, "GPU_THERMAL"),
        ("gpu_power_brake", {"clock_reasons": 0x88}, "GPU_POWER_BRAKE"),
        ("pcie_link", {"pcie_width": 8}, "PCIE_WIDTH"),
    ],
)
def test_findings_of_one_gpu(name: str, change: dict[str, Any], code: str) -> None:
    (found,) = judged(name, gpus(HEALTHY, replace(OTHER, **change)))
    assert (found.code, found.subject, found.gpu) == (code, "GPU-1", 1)


@pytest.mark.parametrize(
    ("value", "action"),
    [
        (1, Action.RESET_GPU),
        (2, Action.REBOOT),
        (3, Action.RESET_GPU),
        (4, Action.RESET_GPU),
        (6, Action.REBOOT),
        (7, Action.REBOOT),
        (42, Action.REBOOT),
    ],
)
def test_recovery_actions(value: int, action: Action) -> None:
    (found,) = judged("gpu_recovery", gpus(replace(HEALTHY, recovery_action=value)))
    assert found.action is action


def test_normal_values_under_load_are_no_fault() -> None:
    busy = replace(HEALTHY, clock_reasons=0x4 | 0x20, uncorrected=7, uncorrected_new=0, pcie_gen=1)
    assert judged("gpu_thermal", gpus(busy)) == []
    assert judged("gpu_ecc", gpus(busy)) == []
    assert judged("pcie_link", gpus(busy)) == []
    braked = replace(HEALTHY, clock_reasons=0x88)
    assert judged("gpu_thermal", gpus(braked)) == [], "the power brake has a check of its own"


def test_no_nvlink_on_any_gpu_is_no_finding() -> None:
    dark = replace(HEALTHY, nvlinks=(False,) * 18)
    assert judged("gpu_nvlink", gpus(dark, replace(OTHER, nvlinks=(False,) * 18))) == []
    assert judged("gpu_nvlink", gpus(dark, OTHER)) != []


def test_the_count() -> None:
    facts = NodeFacts(expected_gpus=8, nvml=NvmlFacts(count=7), pcie=())
    (found,) = judged("gpu_count", facts)
    assert found.detail == "NVML sees 7 of 8 GPUs, 0 on the PCI bus"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (MountState.GONE, "MOUNT_GONE"),
        (MountState.HUNG, "MOUNT_HUNG"),
        (MountState.FULL, "MOUNT_FULL"),
        (MountState.READ_ONLY, "MOUNT_READ_ONLY"),
    ],
)
def test_mounts(state: MountState, code: str) -> None:
    (found,) = judged(
        "mounts", NodeFacts(expected_gpus=0, mounts=(MountFacts(path="/m", state=state),))
    )
    assert (found.code, found.subject) == (code, "/m")


def test_a_mount_with_almost_no_free_space_is_full() -> None:
    mount = MountFacts(path="/m", state=MountState.OK, free_bytes=1, total_bytes=1000)
    (found,) = judged("mounts", NodeFacts(expected_gpus=0, mounts=(mount,)))
    assert found.code == "MOUNT_FULL"


def port(**change: Any) -> NodeFacts:
    base = PortFacts(device="mlx5_0", port=1, state="ACTIVE", link_layer="InfiniBand")
    return NodeFacts(expected_gpus=0, ports=(replace(base, **change),))


def test_a_port_that_was_active_is_down() -> None:
    (found,) = judged("infiniband", port(state="DOWN", seen_active=True))
    assert (found.code, found.subject) == ("IB_DOWN", "mlx5_0/1")
    assert judged("infiniband", port(state="DOWN")) == [], "never had a cable"
    assert judged("infiniband", port(state="DOWN", seen_active=True, link_layer="Ethernet")) == []


def test_a_port_that_flaps() -> None:
    assert judged("infiniband", port(downs_age_s=(10.0,))) == []
    (found,) = judged("infiniband", port(downs_age_s=(10.0, 20.0)))
    assert found.code == "IB_FLAP"
    assert judged("infiniband", port(downs_age_s=(10.0, 7200.0)), window_s=3600) == []
    assert judged("infiniband", port(downs_age_s=None, link_downed=255)) == []


def test_a_flap_has_the_time_until_it_clears() -> None:
    (found,) = judged("infiniband", port(downs_age_s=(500.0, 10.0, 300.0)), window_s=3600)
    assert found.left_s == 3300.0, "then the one of 300 s ago leaves, and one alone passes"
    (found,) = judged("infiniband", port(downs_age_s=(60.0,)), max_downs=0)
    assert found.left_s == 86340.0
    assert "lost its link 1 time in" in found.detail


def test_warnings_of_the_kernel_log_have_the_time_until_they_clear() -> None:
    def left(code: str, *slots: tuple[int, int], count: int = 0) -> float | None:
        event = KernelEvent(
            kind="aer", code=code, subject="0000:5d:00", text="x", seq=1, at_s=1500.0, slots=slots
        )
        facts = NodeFacts(expected_gpus=8, kmsg=KmsgFacts(events=(event,), now_s=1500.0))
        rules = {code: Most(count, window_s=3600.0)}
        (found,) = [found for _, found in judge_events(facts, rules)]
        return found.left_s

    assert left("AER_NONFATAL", (1, 1), (2, 1)) == 1800.0 + 3600.0 - 1500.0
    assert left("AER_NONFATAL", (1, 1), (2, 1), count=1) == 1200.0 + 3600.0 - 1500.0
    assert left("AER_FATAL", (2, 1)) is None, "what is fatal stays until it is mended"


def test_a_driver_that_does_not_answer() -> None:
    def facts(**blind: Any) -> NodeFacts:
        return NodeFacts(expected_gpus=8, blind=(Blind(probe="nvml", why="no answer", **blind),))

    assert judged("driver_hung", facts(hung=True, passes=1)) == [], "once is blindness only"
    (found,) = judged("driver_hung", facts(hung=True, passes=2))
    assert found.code == "DRIVER_SUSPECT", "silence alone may be a busy machine"
    (found,) = judged("driver_hung", facts(hung=True, passes=2, evidence="pid 7: state D, wchan x"))
    assert (found.code, found.action) == ("DRIVER_HUNG", Action.WAIT)
    (found,) = judged("driver_hung", facts(hung=True, passes=2, stuck=True))
    assert found.action is Action.REBOOT, "what SIGKILL does not end, only a reboot does"
    assert judged("driver_hung", facts(passes=9)) == [], (
        "a worker that died is not a driver that hangs"
    )


def test_a_library_that_cannot_be_used() -> None:
    facts = NodeFacts(expected_gpus=8, nvml=NvmlFacts(init_code=9, init_error="Driver Not Loaded"))
    (found,) = judged("driver_hung", facts)
    assert found.code == "NVML_UNAVAILABLE"
    assert judged("driver_hung", replace(facts, expected_gpus=0)) == []


def test_the_error_of_the_measurement_is_subtracted_from_the_clock_difference() -> None:
    def facts(skew_s: float) -> NodeFacts:
        return NodeFacts(expected_gpus=0, clock=ClockFacts(skew_s=skew_s, error_s=0.6))

    assert judged("clock", facts(5.5)) == []
    (found,) = judged("clock", facts(-6.0))
    assert found.code == "CLOCK_SKEW"


def test_lost_records_and_probes_without_an_answer() -> None:
    (found,) = judged("kmsg", NodeFacts(expected_gpus=0, kmsg=KmsgFacts(lost_records=3)))
    assert found.code == "KMSG_LOST"
    blind = NodeFacts(expected_gpus=0, blind=(Blind(probe="kmsg", why="EPERM", passes=6),))
    (found,) = judged("probe_blind", blind)
    assert (found.code, found.subject) == ("PROBE_BLIND", "kmsg")


def test_pci_addresses_of_all_sources_have_one_form() -> None:
    assert {
        pci_address("00000000:5D:00.0"),
        pci_address("0000:5d:00.0"),
        pci_address("0000:5d:00"),
    } == {"0000:5d:00"}
