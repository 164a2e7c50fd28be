"""What each GPU check opens for, beyond the table in test_checks, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.faults import fault_of
from holdfast.vocabulary import Action, Severity
from slurm_hooks import checks
from slurm_hooks.facts import (
    Blind,
    DStateTask,
    GpuDeltas,
    GpuFabric,
    GpuFacts,
    GpuRows,
    KernelEvent,
    KmsgFacts,
    NodeFacts,
    NvmlFacts,
    PcieFacts,
    SystemFacts,
    XidEvent,
)
from tests.unit.slurm_hooks.checks.test_checks import HEALTHY, OTHER, gpus, judged

ROWS = GpuRows(full=2560, high=0, partial=0, low=0, none=0)
IDLE, BUSY = 0x1, 0x0
COMPLETED = GpuFabric(state=3)


def one(**change: Any) -> NodeFacts:
    return gpus(replace(HEALTHY, fabric=COMPLETED), replace(OTHER, **change))


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("gpu_ecc", {"sram_threshold_exceeded": True}, "SRAM_THRESHOLD"),
        ("gpu_row_remap", {"repair_pending": True}, "GPU_REPAIR_PENDING"),
        ("gpu_row_remap", {"spare_rows": replace(ROWS, full=2559, low=1)}, "ROW_REMAP_LOW"),
        ("gpu_row_remap", {"spare_rows": replace(ROWS, full=2559, none=1)}, "ROW_REMAP_LOW"),
        ("gpu_nvlink_errors", {"deltas": GpuDeltas(link_recoveries=1)}, "NVLINK_ERRORS"),
        ("gpu_nvlink_errors", {"deltas": GpuDeltas(link_replays=1)}, "NVLINK_ERRORS"),
        ("gpu_nvlink_errors", {"deltas": GpuDeltas(link_crc_per_s=100.5)}, "NVLINK_ERRORS"),
        ("gpu_thermal", {"deltas": GpuDeltas(thermal_share=0.06)}, "GPU_THERMAL"),
        (
            "gpu_power_brake",
            {"deltas": GpuDeltas(brake_share=0.06), "clock_reasons": 0},
            "GPU_POWER_BRAKE",
        ),
        ("gpu_pcie", {"deltas": GpuDeltas(pcie_replays_per_min=32)}, "PCIE_REPLAYS"),
        ("gpu_pcie", {"pcie_gen": 3, "pcie_max_gen": 5, "clock_reasons": BUSY}, "PCIE_SPEED"),
        ("gpu_modes", {"persistence": False}, "GPU_MODE"),
        ("gpu_modes", {"ecc_on": False}, "GPU_MODE"),
        ("gpu_modes", {"ecc_on": True, "ecc_pending": False}, "GPU_MODE"),
        ("gpu_modes", {"mig": True}, "GPU_MODE"),
        ("gpu_modes", {"compute_mode": 3}, "GPU_MODE"),
        ("gpu_modes", {"compute_mode": 2}, "GPU_PROHIBITED"),
        ("gpu_errors", {"errors": (("nvmlDeviceGetFanSpeed", 999),)}, "GPU_CALLS_FAIL"),
        ("gpu_errors", {"errors": (("nvmlDeviceGetName", 14),)}, "INFOROM_CORRUPT"),
        ("gpu_errors", {"errors": (("nvmlDeviceGetHandleByIndex", 999),)}, "GPU_UNREADABLE"),
        ("gpu_fabric", {"fabric": GpuFabric(state=3, status=999)}, "GPU_FABRIC"),
        ("gpu_fabric", {"fabric": GpuFabric(state=3, health=0x1)}, "GPU_FABRIC"),
        ("gpu_fabric", {"fabric": GpuFabric(state=3, health=0x500)}, "GPU_FABRIC"),
        ("gpu_fabric", {"fabric": GpuFabric(state=3, summary=2)}, "GPU_FABRIC"),
    ],
)
def test_findings_of_one_gpu(name: str, change: dict[str, Any], code: str) -> None:
    (found,) = judged(name, one(**change))
    assert (found.code, found.subject, found.gpu) == (code, "GPU-1", 1)
    assert found.detail.startswith("GPU 1 0000:64:00: ")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gpu_ecc", {"uncorrected_ever": 40, "corrected": 10**8, "corrected_ever": 10**9}),
        ("gpu_row_remap", {"remapped_rows": 12, "spare_rows": replace(ROWS, full=2550, high=10)}),
        ("gpu_row_remap", {"spare_rows": replace(ROWS, partial=9)}),
        ("gpu_nvlink_errors", {"deltas": GpuDeltas(link_recoveries=0, link_crc_per_s=100.0)}),
        ("gpu_nvlink_errors", {"link_crc_errors": (10**6,) * 18}),
        ("gpu_thermal", {"deltas": GpuDeltas(thermal_share=0.05), "thermal_violation_ns": 10**15}),
        (
            "gpu_power_brake",
            {"deltas": GpuDeltas(brake_share=0.05), "hw_power_brake_slowdown_ns": 10**15},
        ),
        ("gpu_thermal", {"power_violation_ns": 7015662857000}),
        ("gpu_pcie", {"pcie_replays": 174, "deltas": GpuDeltas(pcie_replays_per_min=0.0)}),
        ("gpu_pcie", {"pcie_gen": 1, "pcie_max_gen": 5, "clock_reasons": IDLE}),
        ("gpu_pcie", {"pcie_gen": 1, "pcie_max_gen": 5, "clock_reasons": None}),
        ("gpu_modes", {"persistence": True, "ecc_on": True, "ecc_pending": True, "mig": False}),
        ("gpu_fabric", {"fabric": COMPLETED, "deltas": GpuDeltas(fabric_pending_s=0.0)}),
        ("gpu_fabric", {"fabric": GpuFabric(state=3, health=0xAA | 0x100, summary=1)}),
        ("gpu_fabric", {"fabric": GpuFabric(state=1), "deltas": GpuDeltas(fabric_pending_s=299.0)}),
        ("gpu_fabric", {"fabric": GpuFabric(state=2), "deltas": GpuDeltas(fabric_pending_s=None)}),
    ],
)
def test_normal_values_are_no_finding(name: str, change: dict[str, Any]) -> None:
    assert judged(name, one(**change)) == []


def test_a_late_fabric_manager_requires_time_and_an_unhealthy_fabric_a_reset() -> None:
    waiting = one(fabric=GpuFabric(state=1), deltas=GpuDeltas(fabric_pending_s=300.0))
    (found,) = judged("gpu_fabric", waiting)
    assert (found.severity, found.action) == (Severity.FATAL, Action.WAIT)
    assert "not started for 300 s" in found.detail
    (found,) = judged("gpu_fabric", one(fabric=GpuFabric(state=3, health=0x10)))
    assert found.action is Action.RESET_GPU
    assert "unhealthy route" in found.detail


def test_the_same_fabric_fault_on_all_gpus_is_one_finding_of_the_node() -> None:
    ill = GpuFabric(state=3, status=999)
    both = gpus(replace(HEALTHY, fabric=ill), replace(OTHER, fabric=ill))
    (found,) = judged("gpu_fabric", both)
    assert (found.subject, found.gpu) == ("node", None)
    assert found.detail == "all GPUs: NVLink fabric registration failed (NVML code 999)"
    assert judged("gpu_fabric", gpus(replace(HEALTHY, fabric=ill))) == [], (
        "a single GPU is in no fabric"
    )
    other = replace(OTHER, fabric=GpuFabric(state=3, health=0x10))
    differ = judged("gpu_fabric", gpus(replace(HEALTHY, fabric=ill), other))
    assert [found.gpu for found in differ] == [0, 1]


def test_modes_are_compared_with_the_configuration() -> None:
    mixed = one(persistence=False, ecc_on=False, mig=True, compute_mode=3)
    (found,) = judged("gpu_modes", mixed)
    for words in ("persistence mode is off", "ECC is off", "MIG is on", "exclusive process"):
        assert words in found.detail
    assert judged("gpu_modes", mixed, persistence=None, ecc=None, mig=None, compute_mode=None) == []
    (found,) = judged("gpu_modes", gpus(replace(HEALTHY, compute_mode=0)), compute_mode=3)
    assert "compute mode is default" in found.detail


def test_a_version_that_differs_from_most_others_or_from_the_configuration() -> None:
    node = [replace(HEALTHY, index=i, uuid=f"GPU-{i}", vbios="A", inforom="I") for i in range(4)]
    assert judged("gpu_versions", gpus(*node)) == []
    node[2] = replace(node[2], vbios="B")
    (found,) = judged("gpu_versions", gpus(*node))
    assert (found.code, found.gpu) == ("GPU_VERSIONS", 2)
    assert "VBIOS B, expected A" in found.detail
    assert [f.gpu for f in judged("gpu_versions", gpus(*node), vbios="B")] == [0, 1, 3]
    nvml = NvmlFacts(count=1, driver="580", gpus=(replace(HEALTHY, gsp_firmware="570"),))
    (found,) = judged("gpu_versions", NodeFacts(expected_gpus=1, nvml=nvml))
    assert "GSP firmware 570, expected 580" in found.detail
    nvml = NvmlFacts(count=1, driver="580", gpus=(HEALTHY,))
    (found,) = judged("gpu_versions", NodeFacts(expected_gpus=1, nvml=nvml), driver="575")
    assert (found.subject, found.detail) == ("node", "driver 580, expected 575")


def test_the_count_names_the_missing_gpus() -> None:
    bus = tuple(PcieFacts(pci=f"0000:{bus}:00") for bus in ("53", "64", "75"))
    facts = replace(gpus(HEALTHY, OTHER), expected_gpus=3, pcie=bus)
    (found,) = judged("gpu_count", facts)
    assert found.detail.endswith("3 on the PCI bus; without a driver: 0000:75:00")
    (found,) = judged("gpu_count", replace(gpus(HEALTHY, OTHER), pcie=bus[:1]))
    assert found.detail.endswith("missing on the bus: 0000:64:00")


def test_a_node_with_some_of_the_machines_gpus_is_complete() -> None:
    bus = tuple(PcieFacts(pci=f"0000:{bus:02x}:00") for bus in range(8))
    assert judged("gpu_count", replace(gpus(HEALTHY, OTHER), pcie=bus)) == []


def test_a_container_that_does_not_see_the_bus_has_no_finding_about_it() -> None:
    assert judged("gpu_count", replace(gpus(HEALTHY, OTHER), pcie=())) == []
    assert judged("gpu_count", replace(gpus(HEALTHY, OTHER), pcie=None)) == []


# --- the driver -----------------------------------------------------------------------------------

SILENT = Blind(probe="nvml", why="no answer before the deadline", hung=True, passes=2)
ASLEEP = DStateTask(pid=9, tid=9, start=1, name="python3", stack=("x+0x1/0x2 [nvidia]",))
GSP = XidEvent(xid=119, pci="0000:53:00", seq=1, at_s=100.0, text="Timeout after 6s of waiting")
HUNG = KernelEvent(
    kind="hung_task", code="HUNG_TASK", subject="nvidia-smi", text="task nvidia-smi:7 blocked for "
    "more than 120 seconds", seq=2, at_s=100.0,
)  # fmt: skip
IN_DRIVER = replace(
    HUNG, kind="driver", code="DRIVER_TASK_HUNG", subject="python3",
    text="task python3:7 blocked. In the NVIDIA driver: nvidia_ioctl",
)  # fmt: skip
NO_HANG = replace(HUNG, kind="driver", code="GPU_INIT_FAILED", text="NVRM: RmInitAdapter failed!")


@pytest.mark.parametrize(
    ("confirmation", "words"),
    [
        ({"system": SystemFacts(d_state_tasks=(ASLEEP,))}, "task python3 (pid 9) sleeps in x"),
        ({"kmsg": KmsgFacts(xids=(GSP,), now_s=700.0)}, "kernel log: Xid 119"),
        (
            {"kmsg": KmsgFacts(events=(IN_DRIVER,), now_s=700.0)},
            "In the NVIDIA driver: nvidia_ioctl",
        ),
        (
            {"blind": (replace(SILENT, evidence="pid 5: state D, wchan y"),)},
            "the probe's worker sleeps",
        ),
        ({"blind": (replace(SILENT, stuck=True, evidence="pid 5"),)}, "SIGKILL does not end"),
    ],
)
def test_a_hung_driver_needs_a_confirmation_and_the_finding_names_it(
    confirmation: dict[str, Any], words: str
) -> None:
    facts = replace(NodeFacts(expected_gpus=8, blind=(SILENT,)), **confirmation)
    (found,) = judged("driver_hung", facts)
    assert (found.code, found.severity) == ("DRIVER_HUNG", Severity.FATAL)
    assert "NVML did not answer 2 times" in found.detail
    assert words in found.detail


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"kmsg": KmsgFacts(xids=(GSP,), now_s=701.0)},
        {"kmsg": KmsgFacts(events=(replace(HUNG, subject="tar", text="task tar:7"),), now_s=1.0)},
        {"kmsg": KmsgFacts(events=(HUNG,), now_s=100.0)},  # its name is its user's choice
        {"kmsg": KmsgFacts(events=(replace(IN_DRIVER, over=True), NO_HANG), now_s=100.0)},
        {"system": SystemFacts(d_state_tasks=(replace(ASLEEP, stack=("nfs_wait [nfs]",)),))},
        {"blind": (replace(SILENT, evidence="pid 5: state S"),)},
    ],
)
def test_no_answer_without_a_confirmation_does_not_drain(other: dict[str, Any]) -> None:
    facts = replace(NodeFacts(expected_gpus=8, blind=(SILENT,)), **other)
    (found,) = judged("driver_hung", facts)
    assert (found.code, found.severity) == ("DRIVER_SUSPECT", Severity.WARN)
    assert found.detail.startswith("NVML does not answer (no answer before the deadline); ")
    assert not fault_of(found.code).drains


def test_a_task_that_sleeps_in_a_driver_that_answers_is_not_confirmed() -> None:
    def facts(blocked_s: float | None) -> NodeFacts:
        task = replace(ASLEEP, blocked_s=blocked_s)
        return NodeFacts(
            expected_gpus=8,
            nvml=NvmlFacts(count=8, driver="580"),
            system=SystemFacts(d_state_tasks=(task,)),
        )

    assert judged("driver_hung", facts(None)) == []
    assert judged("driver_hung", facts(120.0)) == []
    (found,) = judged("driver_hung", facts(121.0))
    assert found.code == "DRIVER_SUSPECT"
    assert "slept in x for more than 120 s" in found.detail


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("gpu_row_remap", {"max_low_banks": -1}),
        ("gpu_nvlink_errors", {"max_crc_per_s": -1.0}),
        ("gpu_nvlink_errors", {"max_recoveries_per_h": -1}),
        ("gpu_fabric", {"grace_s": -1.0}),
        ("gpu_modes", {"compute_mode": 4}),
        ("gpu_pcie", {"min_gen": 9}),
        ("gpu_pcie", {"max_replays_per_min": -1.0}),
        ("gpu_thermal", {"max_share": 1.1}),
        ("driver_hung", {"hung_passes": 0}),
        ("driver_hung", {"blocked_s": -1.0}),
    ],
)
def test_limits_out_of_range_are_refused_by_name(name: str, limits: dict[str, Any]) -> None:
    (field,) = limits
    with pytest.raises(ValueError, match=f"{field} must be between"):
        checks.load(name).limits(**limits)


def test_every_reading_has_a_value_and_a_limit() -> None:
    full = GpuFacts(
        index=0, uuid="GPU-0", pci="0000:53:00", name="H100", vbios="A", uncorrected=0, corrected=5,
        remap_pending=False, spare_rows=ROWS, link_replays=(0,) * 18, link_crc_errors=(0,) * 18,
        fabric=COMPLETED, pcie_gen=5, pcie_max_gen=5, clock_reasons=IDLE, thermal_margin_c=58,
        slowdown_margin_c=-2, persistence=True, ecc_on=True, mig=False, compute_mode=0,
        deltas=GpuDeltas(link_recoveries=0, thermal_share=0.01, pcie_replays_per_min=2.0),
    )  # fmt: skip
    shown = {
        name: list(checks.load(name).show(gpus(full), checks.load(name).limits()))
        for name in checks.CATALOGUE
        if name.startswith("gpu_") and checks.load(name).probe == "nvml"
    }
    values = {name: readings[-1].value for name, readings in shown.items() if readings}
    assert values["gpu_ecc"].startswith("? new (0 since reset, ? in total; 5 corrected)")
    assert values["gpu_nvlink_errors"] == "0 recoveries, ? replays in the last hour, ? CRC/s"
    assert values["gpu_fabric"] == "completed"
    assert values["gpu_modes"] == "persistence on, ECC on, MIG off, compute default"
    assert values["gpu_pcie"] == "Gen5 idle, 2 replays/min"
    assert values["gpu_thermal"] == "margin 58 C, slowed 1%"
    assert values["gpu_row_remap"] == "0 banks low on spare rows"
    assert values["gpu_errors"] == "all calls succeed"
    assert all(reading.limit for readings in shown.values() for reading in readings)
