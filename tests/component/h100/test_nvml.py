"""The real binding over the simulated library: values, live changes, latency, hangs, events."""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.h100 import build_library, make_node
from testbed.h100 import library as library_module
from testbed.h100.board import identity

from tests.component.h100.conftest import NODE_INDEX
from tests.component.h100.program import Program


def add(sim: Path, line: str) -> None:
    """A fault as any test may put it in: one more line, the last one wins."""
    with (sim / "nvml.state").open("a") as state:
        state.write(line + "\n")


def test_structs_have_the_sizes_that_the_binding_declares() -> None:
    import pynvml as n

    declared = {
        n.nvmlPciInfo_t: 68,
        n.c_nvmlFieldValue_t: 40,
        n.c_nvmlEventData_t: 32,
        n.c_nvmlProcessInfo_v2_t: 24,
        n.c_nvmlMemory_v2_t: 40,
        n.c_nvmlGpuFabricInfo_v2_t: 36,
        n.c_nvmlGpuFabricInfo_v3_t: 40,
        n.c_nvmlEccSramErrorStatus_v1_t: 0x68,
        n.c_nvmlRowRemapperHistogramValues: 20,
    }
    assert {struct: ctypes.sizeof(struct) for struct in declared} == declared
    source = Path(library_module.__file__).with_name("nvmlsim.c").read_text()
    asserted = re.findall(r"_Static_assert\(sizeof\(\w+\) == (\w+), \"(\w+)\"\)", source)
    sizes = {struct.__name__.removeprefix("c_"): size for struct, size in declared.items()}
    assert {name: int(size, 0) for size, name in asserted if name in sizes}.items() <= sizes.items()
    assert len(asserted) >= 7


def test_a_healthy_node_is_an_hgx_h100(program: Program) -> None:
    assert program.ask("n.nvmlDeviceGetCount()") == 8
    assert program.ask("n.nvmlSystemGetDriverVersion()") == "580.105.08"
    assert program.ask("n.nvmlDeviceGetName(h(0))") == "NVIDIA H100 80GB HBM3"
    assert program.ask("n.nvmlDeviceGetPciInfo(h(3)).busId") == "00000000:86:00.0"
    assert program.ask("n.nvmlDeviceGetUUID(h(3))") == identity(NODE_INDEX, 3).uuid
    assert program.ask("n.nvmlDeviceGetSerial(h(3))") == identity(NODE_INDEX, 3).serial
    assert program.ask("[n.nvmlDeviceGetNvLinkState(h(7), link) for link in range(18)]") == [1] * 18
    assert program.ask("n.nvmlDeviceGetNvLinkState(h(7), 18)") == {"nvml": 2}
    assert program.ask("n.nvmlDeviceGetRetiredPagesPendingStatus(h(0))") == {"nvml": 3}
    assert program.ask("n.nvmlDeviceGetPcieReplayCounter(h(0))") == 150  # healthy is not all zeros


def test_a_gpu_is_found_by_index_uuid_serial_and_bus(program: Program) -> None:
    uuid, serial = identity(NODE_INDEX, 5).uuid, identity(NODE_INDEX, 5).serial
    assert program.ask(f"n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID({uuid!r}))") == 5
    assert program.ask(f"n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleBySerial({serial!r}))") == 5
    assert program.ask("n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId('0000:a8:00.0'))") == 5
    assert program.ask("n.nvmlDeviceGetHandleByUUID('GPU-none')") == {"nvml": 6}
    assert program.ask("h(8)") == {"nvml": 2}


def test_no_two_gpus_of_a_cluster_share_an_identity() -> None:
    every = [identity(node, gpu) for node in range(200) for gpu in range(8)]
    assert len({own.uuid for own in every}) == len({own.serial for own in every}) == len(every)


@pytest.mark.parametrize(
    ("line", "call", "value"),
    [
        ("gpu.3.temp = 91", "n.nvmlDeviceGetTemperature(h(3), 0)", 91),
        ("gpu.*.temp = 55", "n.nvmlDeviceGetTemperature(h(6), 0)", 55),
        ("gpu.3.temp = 91", "n.nvmlDeviceGetMarginTemperature(h(3))", -4),
        ("gpu.3.remap.failure = 1", "n.nvmlDeviceGetRemappedRows(h(3))", [0, 0, 0, 1]),
        (
            "gpu.3.link.7.state = 0",
            "[n.nvmlDeviceGetNvLinkState(h(3), link) for link in (6, 7)]",
            [1, 0],
        ),
        ("gpu.3.link.7.crc = 12345", "n.nvmlDeviceGetNvLinkErrorCounter(h(3), 7, 2)", 12345),
        ("gpu.3.ecc.uncorr.agg.sram = 2", "n.nvmlDeviceGetTotalEccErrors(h(3), 1, 1)", 2),
        ("gpu.3.recovery_action = 2", "field(3, 230).value.uiVal", 2),
        ("gpu.3.fieldrc.82 = 3", "field(3, 82).nvmlReturn", 3),
        ("gpu.3.field.82 = 99", "field(3, 82).value.ullVal", 99),
        ("gpu.3.fabric.status = 999", "fabric(3).status", 999),
        ("gpu.3.violation.3 = 5000", "field(3, 77).value.ullVal", 5000),
        (
            "gpu.3.link.7.replay = 6",
            "n.nvmlDeviceGetFieldValues(h(3), [(161, 7)])[0].value.ullVal",
            6,
        ),
        ("gpu.3.link.*.recovery = 2", "n.nvmlDeviceGetNvLinkErrorCounter(h(3), 9, 1)", 2),
        ("gpu.3.pcie_replay = 7+2/s@99999999999", "field(3, 94).value.uiVal", 7),
        ("gpu.3.clocks_event = 0x80", "n.nvmlDeviceGetCurrentClocksEventReasons(h(3))", 0x80),
        ("gpu.3.pcie_width = 8", "n.nvmlDeviceGetCurrPcieLinkWidth(h(3))", 8),
        ("count = 7", "n.nvmlDeviceGetCount()", 7),
        (
            "gpu.3.rc.nvmlDeviceGetPowerUsage = 999",
            "n.nvmlDeviceGetPowerUsage(h(3))",
            {"nvml": 999},
        ),
        ("gpu.3.lost = 1", "h(3)", {"nvml": 15}),
        (
            "gpu.3.proc = 42:1024",
            "[p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(h(3))]",
            [42],
        ),
    ],
)
def test_a_line_shows_in_a_running_process(
    program: Program, sim: Path, line: str, call: str, value: object
) -> None:
    before = program.ask(call) if "lost" not in line else None
    add(sim, line)
    assert program.ask(call) == value != before


def test_a_handle_from_before_the_gpu_was_lost_reports_the_loss(
    program: Program, sim: Path
) -> None:
    program.ask("globals().__setitem__('held', h(2))")
    add(sim, "gpu.2.lost = 1")
    for call in (
        "n.nvmlDeviceGetTemperature(held, 0)",
        "n.nvmlDeviceGetUUID(held)",
        "n.nvmlDeviceGetFieldValues(held, [230])",
    ):
        assert program.ask(call) == {"nvml": 15}
    assert program.ask("n.nvmlDeviceGetCount()") == 8
    assert program.ask("n.nvmlDeviceGetTemperature(h(1), 0)") == 29


def test_a_line_still_being_written_does_not_count(program: Program, sim: Path) -> None:
    with (sim / "nvml.state").open("a") as state:
        state.write("gpu.0.temp = 9")
        state.flush()
        assert program.ask("n.nvmlDeviceGetTemperature(h(0), 0)") == 29
        state.write("1\n")
    assert program.ask("n.nvmlDeviceGetTemperature(h(0), 0)") == 91


def test_latency(program: Program, sim: Path) -> None:
    add(sim, "gpu.0.ms.nvmlDeviceGetPowerUsage = 120")
    assert 0.115 < program.ask("timed(lambda: n.nvmlDeviceGetPowerUsage(h(0)))") < 1


@pytest.mark.parametrize(("kind", "state"), [("1", "S"), ("D", "D")])
def test_a_hang_ends_when_the_driver_comes_back(
    program: Program, sim: Path, kind: str, state: str
) -> None:
    add(sim, f"gpu.4.hang.nvmlDeviceGetTemperature = {kind}")
    program.say("n.nvmlDeviceGetTemperature(h(4), 0)")
    assert program.sleeps_in(state)
    add(sim, "gpu.4.hang.nvmlDeviceGetTemperature = 0")
    assert program.answer() == 29


def test_a_killable_hang_is_killable(victim: Program, sim: Path) -> None:
    add(sim, "gpu.*.hang.* = D")
    victim.say("n.nvmlDeviceGetTemperature(h(4), 0)")
    assert victim.sleeps_in("D")
    victim.process.kill()
    assert victim.process.wait(5) == -signal.SIGKILL


def test_an_unkillable_hang_outlives_sigkill_until_the_driver_comes_back(
    victim: Program, sim: Path
) -> None:
    add(sim, "gpu.4.hang.nvmlDeviceGetTemperature = K")
    victim.say("n.nvmlDeviceGetTemperature(h(4), 0)")
    assert victim.is_held()
    for _ in range(2):
        victim.process.kill()
        with pytest.raises(subprocess.TimeoutExpired):
            victim.process.wait(0.3)
    add(sim, "gpu.4.hang.nvmlDeviceGetTemperature = 0")
    assert victim.process.wait(5) == -signal.SIGKILL


def test_an_xid_wakes_a_waiting_process_once(program: Program, sim: Path) -> None:
    add(sim, "event = 1:6:8:13")  # before registration: never delivered
    program.ask("globals().__setitem__('events', n.nvmlEventSetCreate())")
    program.ask("[n.nvmlDeviceRegisterEvents(h(gpu), 8, events) for gpu in range(8)]")
    assert program.ask("n.nvmlEventSetWait_v2(events, 50)") == {"nvml": 10}
    program.say(
        "(lambda e: (n.nvmlDeviceGetIndex(e.device), e.eventType, e.eventData))(n.nvmlEventSetWait_v2(events, 5000))"
    )
    time.sleep(0.1)
    add(sim, "event = 2:6:8:79")
    assert program.answer() == [6, 8, 79]
    assert program.ask("n.nvmlEventSetWait_v2(events, 20)") == {"nvml": 10}
    add(sim, "gpu.6.lost = 1")
    assert program.ask("n.nvmlEventSetWait_v2(events, 5000)") == {"nvml": 15}


def test_no_state_file_is_a_healthy_node(library: Path, tmp_path: Path) -> None:
    program = Program(library, tmp_path / "none")
    try:
        assert program.ask("n.nvmlDeviceGetCount()") == 8
    finally:
        program.end()


def test_the_library_is_built_once_and_compiles_without_a_warning(tmp_path: Path) -> None:
    built = build_library(tmp_path)
    made = built.stat().st_mtime_ns
    assert build_library(tmp_path) == built
    assert built.stat().st_mtime_ns == made
    folder = Path(library_module.__file__).parent
    done = subprocess.run(
        [
            "cc",
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "nvmlsim.c",
            "simstate.c",
            "../faults/clock_skew.c",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_no_compiler_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(
        SandboxError, match=r"^no C compiler found \(cc, gcc, tcc\): apt-get install"
    ):
        build_library(tmp_path / "cache")


def test_a_board_has_room_for_eight(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 to 8"):
        make_node(tmp_path, 0, gpus=9)
