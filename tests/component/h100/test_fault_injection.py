"""Every kind of hardware fault shows in the right places at run time, and heals without a trace."""

from __future__ import annotations

import filecmp
import time
from pathlib import Path
from typing import cast

import pytest
from testbed import faults
from testbed.box import Box
from testbed.errors import SandboxError
from testbed.faults import KINDS
from testbed.faults.arguments import parse
from testbed.faults.effects.effects import Effects, Remedy
from testbed.faults.effects.hardware import RECOVERY
from testbed.h100 import kmsg, sysfs
from testbed.h100.node import read_state

from tests.component.h100.conftest import NODE, FolderBox
from tests.component.h100.program import Program

HARDWARE = sorted(name for name, kind in KINDS.items() if kind.effects is not None)
EXAMPLES = {
    "kernel-line": ["x[1]: segfault at 0"],
    "xid": ["79"],
    "gpu-count": ["7"],
    "recovery-action": ["reset"],
    "pcie-width": ["--width", "4"],
    "fabric": ["failed"],
    "gpu-mode": ["persistence-off"],
    "nvml-error": ["ecc"],
    "gpu-process": ["4242"],
    "pcie-aer": ["fatal"],
    "module-missing": ["nvidia_uvm"],
    "service-stopped": ["fabricmanager"],
    "sxid": ["20034"],
    "kernel-log": ["nvme-failed"],
}


@pytest.fixture
def box(folder_box: FolderBox) -> Box:
    return cast("Box", folder_box)


def log(sim: Path) -> list[str]:
    return [line.partition(";")[2] for line in (sim / "kmsg").read_text().splitlines()]


def test_the_catalogue_is_whole() -> None:
    for name, kind in KINDS.items():
        assert name == kind.name
        assert (kind.effects is None) != (kind.begin is None), name
        assert kind.passing == (kind.effects is None and kind.end is None), name
        assert len(f"{kind.usage} {kind.meaning}") < 150
        assert kind.heals
    asked = """xid gpu-lost gpu-count ecc row-remap-pending row-remap-failed recovery-action nvlink-down ib-down
        link-flap thermal power-brake pcie-width nvml-slow nvml-hung nvml-unkillable mount-gone mount-hung mount-full
        mount-read-only power-off power-cycle network-cut slurmd-killed agent-killed clock-skew
        slurmctld-stopped slurmctld-killed slurmctld-restored api-server-down bridge-killed
        nvlink-errors pcie-replays pcie-speed sram-threshold row-remap-low repair-pending
        fabric gpu-mode vbios-differs nvml-error gpu-process"""
    assert set(asked.split()) <= set(KINDS)


@pytest.mark.parametrize("kind", HARDWARE)
def test_heals_without_a_trace(
    box: Box, folder_box: FolderBox, sim: Path, healthy: Path, kind: str
) -> None:
    said = faults.inject(box, NODE, kind, EXAMPLES.get(kind, []))
    assert said.startswith(f"{NODE}: {kind}")
    before, after = (healthy / "nvml.state").read_text(), (sim / "nvml.state").read_text()
    assert before != after or log(sim) != log(healthy) or differing(healthy / "sys", sim / "sys")
    faults.heal(box, NODE)
    assert faults.active(box, NODE) == []
    effects = effects_of(kind, sim)
    worn = {path.rpartition("/")[2] for path in effects.sysfs_wear}
    assert differing(healthy / "sys", sim / "sys") == worn
    changed = {
        key for key, value in read_state(sim).items() if read_state(healthy).get(key) != value
    } - {"event"}
    replaced = effects.remedy is Remedy.REPLACE
    assert changed == ({"gpu.0.uuid", "gpu.0.serial"} if replaced else set(effects.wear))
    assert (sim / "nvml.state").read_text().endswith("healthy ---\n")


@pytest.mark.parametrize("kind", HARDWARE)
def test_effects_touch_only_what_a_healthy_node_has(sim: Path, kind: str) -> None:
    effects, tree = effects_of(kind, sim), sysfs.healthy()
    folders = {str(folder) for path in tree for folder in Path(path).parents}
    gone = {path for path, value in effects.sysfs.items() if value is None}
    assert {*effects.sysfs, *effects.sysfs_wear} <= set(tree) | folders & gone
    assert all("\n" not in line for line in (*effects.log, *effects.log_when_healed))


@pytest.mark.parametrize("kind", ["gpu-lost", "xid"])
def test_a_lost_gpu_is_lost_everywhere(box: Box, program: Program, sim: Path, kind: str) -> None:
    faults.inject(box, NODE, kind, [*EXAMPLES.get(kind, []), "--gpu", "3"])
    assert program.ask("h(3)") == {"nvml": 15}
    assert program.ask("n.nvmlDeviceGetCount()") == 8
    assert program.ask("n.nvmlDeviceGetTemperature(h(2), 0)") == 29
    folder = sim / "sys/bus/pci/devices/0000:86:00.0"
    assert (folder / "config").read_bytes() == b"\xff" * 256
    assert (folder / "current_link_width").read_text() == "63\n"
    assert "SDES 1" in (sim / "sys/bus/pci/devices/0000:83:01.0/aer_dev_fatal").read_text()
    assert log(sim)[-3:] == [
        "NVRM: Xid (PCI:0000:86:00): 79, GPU has fallen off the bus.",
        "NVRM: GPU 0000:86:00.0: GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:86:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    ]


@pytest.mark.parametrize(
    ("words", "call", "value"),
    [
        ("gpu-count 6", "n.nvmlDeviceGetCount()", 6),
        ("ecc --gpu 1", "n.nvmlDeviceGetTotalEccErrors(h(1), 1, 0)", 1),
        ("xid 48 --gpu 1", "n.nvmlDeviceGetTotalEccErrors(h(1), 1, 0)", 1),
        ("row-remap-pending --gpu 2", "n.nvmlDeviceGetRemappedRows(h(2))", [0, 1, 1, 0]),
        ("row-remap-failed --gpu 2", "n.nvmlDeviceGetRemappedRows(h(2))", [0, 0, 0, 1]),
        ("recovery-action reboot --gpu 4", "field(4, 230).value.uiVal", 2),
        ("nvlink-down --gpu 1 --link 4", "n.nvmlDeviceGetNvLinkState(h(1), 4)", 0),
        ("thermal --gpu 6", "n.nvmlDeviceGetCurrentClocksEventReasons(h(6))", 0x68),
        (
            "power-brake",
            "[n.nvmlDeviceGetCurrentClocksEventReasons(h(i)) for i in (0, 7)]",
            [0x88, 0x88],
        ),
        ("pcie-width --width 4 --gpu 3", "n.nvmlDeviceGetCurrPcieLinkWidth(h(3))", 4),
        ("pcie-speed --gpu 3", "n.nvmlDeviceGetCurrPcieLinkGeneration(h(3))", 1),
        ("row-remap-low --gpu 3", "n.nvmlDeviceGetRowRemapperHistogram(h(3)).low", 3),
        ("repair-pending --gpu 3", "n.nvmlDeviceGetRepairStatus(h(3))", [1, 0]),
        ("fabric in-progress", "fabric(5).state", 2),
        ("fabric failed", "fabric(5).status", 999),
        ("fabric route-unhealthy", "fabric(5).healthMask", 0x10),
        ("gpu-mode persistence-off --gpu 2", "n.nvmlDeviceGetPersistenceMode(h(2))", 0),
        ("gpu-mode ecc-off --gpu 2", "field(2, 1).value.uiVal", 0),
        ("gpu-mode mig-on --gpu 2", "n.nvmlDeviceGetMigMode(h(2))", [1, 1]),
        ("gpu-mode compute-prohibited --gpu 2", "n.nvmlDeviceGetComputeMode(h(2))", 2),
        ("vbios-differs --gpu 1", "n.nvmlDeviceGetVbiosVersion(h(1))", "96.00.74.00.0D"),
        ("nvml-error handle --code 999 --gpu 4", "h(4) and 0", {"nvml": 999}),
        (
            "gpu-process 4242 --gpu 7 --mib 64",
            "[(p.pid, p.usedGpuMemory) for p in n.nvmlDeviceGetComputeRunningProcesses(h(7))]",
            [[4242, 64 << 20]],
        ),
    ],
)
def test_nvml_shows_it_live_until_healed(
    box: Box, program: Program, words: str, call: str, value: object
) -> None:
    kind, *args = words.split()
    healthy = program.ask(call)
    faults.inject(box, NODE, kind, args)
    assert program.ask(call) == value != healthy
    assert [str(fault) for fault in faults.active(box, NODE)] == [words]
    faults.heal(box, NODE)
    # the counter of remapped rows is of the GPU's life, not of the fault
    assert program.ask(call) == (healthy if kind != "row-remap-pending" else [0, 1, 0, 0])


def test_counters_run_until_healed(box: Box, program: Program) -> None:
    kinds = ("nvlink-errors", "pcie-replays", "thermal", "power-brake")
    calls = (
        "n.nvmlDeviceGetNvLinkErrorCounter(h(0), 0, 2)",
        "field(0, 94).value.uiVal",
        "field(0, 75).value.ullVal",
        "field(0, 270).value.ullVal",
        "field(0, 271).value.ullVal",
    )

    def counters() -> list[int]:
        return [program.ask(call) for call in calls]

    healthy = counters()
    for kind in kinds:
        faults.inject(box, NODE, kind)
    time.sleep(1.1)
    first = counters()
    time.sleep(1.1)
    later = counters()
    for call, *values in zip(calls, healthy, first, later, strict=True):
        assert sorted(set(values)) == values, call
    faults.heal(box, NODE)
    assert counters() == healthy


def test_a_gpu_whose_sram_is_worn_out_is_replaced(
    box: Box, folder_box: FolderBox, program: Program
) -> None:
    was = program.ask("n.nvmlDeviceGetUUID(h(0))")
    faults.inject(box, NODE, "sram-threshold")
    assert program.ask("sram(0).bThresholdExceeded") == 1
    faults.heal(box, NODE)
    assert program.ask("sram(0).bThresholdExceeded") == 0
    assert program.ask("n.nvmlDeviceGetUUID(h(0))") != was
    assert folder_box.power == ["off", "on"]


@pytest.mark.parametrize(("kind", "state"), [("nvml-hung", "D"), ("nvml-unkillable", "S")])
def test_a_hung_driver_does_not_answer_until_healed(
    box: Box, program: Program, kind: str, state: str
) -> None:
    faults.inject(box, NODE, kind)
    program.say("n.nvmlDeviceGetCount()")
    hangs = program.sleeps_in(state)
    faults.heal(box, NODE)  # whatever was seen: nothing can end a process that hangs
    assert hangs
    assert program.answer() == 8


def test_a_slow_driver(box: Box, program: Program) -> None:
    faults.inject(box, NODE, "nvml-slow", ["--ms", "80"])
    assert program.ask("timed(n.nvmlDeviceGetCount)") > 0.075


def test_a_reset_is_told_by_the_driver_and_a_power_cycle_by_the_power(
    box: Box, folder_box: FolderBox, sim: Path
) -> None:
    faults.inject(box, NODE, "ecc", ["--gpu", "1"])
    faults.heal(box, NODE)
    assert log(sim)[-1] == (
        "NVRM: Xid (PCI:0000:64:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    )
    assert folder_box.power == []
    faults.inject(box, NODE, "gpu-lost")
    faults.heal(box, NODE)
    assert folder_box.power == ["off", "on"]


def test_one_of_two_faults_heals_alone(box: Box, program: Program, sim: Path) -> None:
    faults.inject(box, NODE, "thermal", ["--gpu", "1"])
    faults.inject(box, NODE, "ecc", ["--gpu", "1"])
    assert faults.heal(box, NODE, "ecc") == [f"{NODE}: ecc --gpu 1 healed (GPU reset)"]
    assert program.ask("n.nvmlDeviceGetTemperature(h(1), 0)") == 91
    assert program.ask("n.nvmlDeviceGetTotalEccErrors(h(1), 1, 0)") == 0
    assert program.ask("n.nvmlDeviceGetTotalEccErrors(h(1), 1, 1)") == 1  # InfoROM does not forget
    assert faults.heal(box, NODE, "ecc") == []


def test_twice_is_once_but_the_driver_says_it_twice(box: Box, sim: Path) -> None:
    faults.inject(box, NODE, "xid", ["48", "--gpu", "2"])
    said = faults.inject(box, NODE, "xid", ["48", "--gpu", "2"])
    assert said == f"{NODE}: xid 48 --gpu 2 (was already present)"
    assert len(faults.active(box, NODE)) == 1
    assert sum(": 48, " in line for line in log(sim)) == 2
    assert read_state(sim)["gpu.2.ecc.uncorr.agg.dram"] == "1"


def test_an_application_fault_leaves_nothing_to_heal(box: Box, sim: Path) -> None:
    faults.inject(box, NODE, "xid", ["31", "--gpu", "4"])
    assert ": 31, pid=" in log(sim)[-1]
    assert faults.active(box, NODE) == []


def test_a_flap_shows_in_counters_and_log_only(box: Box, sim: Path) -> None:
    faults.inject(box, NODE, "link-flap", ["--hca", "mlx5_2", "--times", "4"])
    faults.inject(box, NODE, "link-flap", ["--hca", "mlx5_2"])
    port = sim / "sys/class/infiniband/mlx5_2/ports/1"
    assert (port / "counters/link_downed").read_text() == "7\n"
    assert (port / "state").read_text() == "4: ACTIVE\n"
    assert sum("Cable unplugged" in line for line in log(sim)) == 7


def test_an_event_reaches_a_waiting_process(box: Box, program: Program) -> None:
    program.ask("globals().__setitem__('events', n.nvmlEventSetCreate())")
    program.ask("[n.nvmlDeviceRegisterEvents(h(gpu), 8, events) for gpu in range(8)]")
    for number in (31, 13):
        faults.inject(box, NODE, "xid", [str(number), "--gpu", "5"])
        assert program.ask("n.nvmlEventSetWait_v2(events, 1000).eventData") == number


def test_an_events_number_ascends_when_the_clock_does_not(
    box: Box, sim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = []
    for now in (1000.0, 1000.0, 900.0):
        monkeypatch.setattr("time.time", lambda now=now: now)
        faults.inject(box, NODE, "xid", ["31"])
        numbers.append(int(read_state(sim)["event"].partition(":")[0]))
    assert numbers == [1_000_000, 1_000_001, 1_000_002]


def test_a_power_cycle_ends_what_lived_in_the_running_system_only(
    box: Box, sim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    quiet = replace(KINDS["mount-gone"], begin=lambda *_: None, end=lambda *_: None)
    monkeypatch.setitem(KINDS, "mount-gone", quiet)
    faults.inject(box, NODE, "mount-gone")
    faults.inject(box, NODE, "thermal")
    assert len(faults.active(box, NODE)) == 2
    (sim / "boot_id").write_text("two\n")
    assert [fault.kind for fault in faults.active(box, NODE)] == ["thermal"]


@pytest.mark.parametrize(
    ("node", "kind", "problem"),
    [
        (NODE, "xidd", "unknown kind of fault 'xidd'; did you mean 'xid'?"),
        (NODE, "slurmctld-killed", "slurmctld-killed is a fault of the cluster"),
        ("controller", "gpu-lost", "gpu-lost is a fault of a node"),
        ("worker-9", "gpu-lost", "no node 'worker-9'"),
    ],
)
def test_an_impossible_fault_is_refused(box: Box, node: str, kind: str, problem: str) -> None:
    with pytest.raises(SandboxError, match=problem.replace("?", r"\?")):
        faults.inject(box, node, kind)
    with pytest.raises(SandboxError):
        faults.heal(box, node, kind)


def effects_of(kind: str, sim: Path) -> Effects:
    make = KINDS[kind].effects
    assert make is not None
    return make(parse(kind, KINDS[kind].arguments, EXAMPLES.get(kind, [])), read_state(sim))


def differing(left: Path, right: Path) -> set[str]:
    """Names of files that differ between two trees."""
    found: set[str] = set()
    compared = filecmp.dircmp(left, right, ignore=[])
    todo = [compared]
    while todo:
        pair = todo.pop()
        found |= {*pair.left_only, *pair.right_only}
        _, wrong, odd = filecmp.cmpfiles(pair.left, pair.right, pair.common_files, shallow=False)
        found |= {*wrong, *odd}
        todo += [
            sub for name, sub in pair.subdirs.items() if not (Path(pair.left) / name).is_symlink()
        ]
    return found


def test_the_words_of_the_recovery_action_are_the_drivers() -> None:
    assert {word: number for word, (number, _, _) in RECOVERY.items()} == {
        "reset": 1,
        "reboot": 2,
        "drain-p2p": 3,
        "drain-and-reset": 4,
    }
    assert kmsg.KERNEL_WARNING >> 3 == 0


def test_a_node_without_power_refuses_faults(box: Box, sim: Path) -> None:
    box.power_off(NODE)
    before = log(sim)
    with pytest.raises(SandboxError, match="is powered off"):
        faults.inject(box, NODE, "xid", ["79"])
    assert log(sim) == before
    assert faults.active(box, NODE) == []
