"""The program inside the test job: real programs on this machine, and every way in which they end."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from holdfast.history import store
from holdfast.records import verdict_file
from holdfast.vocabulary import SlurmName, Status
from slurm_hooks.active import run_on_node
from slurm_hooks.active.node_reservation import NodeReservation, Occupied, ReservedNodes
from slurm_hooks.active.program import Missing
from slurm_hooks.active.programs import host as host_program
from slurm_hooks.active.programs import storage as storage_program
from slurm_hooks.active.reservation_text import Purpose
from slurm_hooks.active.result import CheckOutcome, Result, decode
from slurm_hooks.agent.drain import return_test
from slurm_hooks.node import machine
from slurm_hooks.node.machine import node_name

SHM = Path("/dev/shm")
needs_a_mount = pytest.mark.skipif(
    not (os.path.ismount(SHM) and os.access(SHM, os.W_OK)), reason="no writable mount at /dev/shm"
)


def configured(tmp_path: Path, mount: Path) -> Path:
    path = tmp_path / "holdfast.yaml"
    path.write_text(
        f"paths: {{state: {tmp_path}/state, run: {tmp_path}/run}}\n"
        f"node: {{mounts: [{mount}], expected_gpus: 0}}\n"
        "active: {storage: {size_mib: 8, min_write_mb_s: 0, min_read_mb_s: 0}}\n"
    )
    return path


@needs_a_mount
def test_the_storage_check_runs_and_its_result_is_in_the_history(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = configured(tmp_path, SHM)
    assert run_on_node.main(["storage", "--config", str(config)]) == 0
    result = decode(capfd.readouterr().out)
    assert result is not None
    assert result.verdict is CheckOutcome.PASSED, result.detail
    assert list(SHM.glob(f"{storage_program.PREFIX}*")) == []
    events = store.read(tmp_path / "state/history").events
    assert [(event.node, event.facts["verdict"]) for event in events] == [(node_name(), "passed")]


@pytest.mark.parametrize("seen", [True, False])
def test_a_test_begins_once_the_agent_has_seen_it(tmp_path: Path, seen: bool) -> None:
    """Else the agent would take the drain after the test for a person's."""
    config = configured(tmp_path, SHM)
    verdict = verdict_file.path_in(tmp_path / "run")
    verdict.parent.mkdir()

    def publish(at: str | None) -> None:
        text = verdict_file.render(
            Status.BAD,
            expires_s=int(machine.uptime_s(Path("/proc"))) + 1000,
            boot_id=machine.boot_id(Path("/proc")),
            detail={"decision": {"action": "drain", "made": {"code": "XID79", "at": at}}},
        )
        verdict_file.write(verdict, text)

    publish("2026-11-23T10:00:00+00:00")
    agent = threading.Timer(0.3, publish, [None])
    if seen:
        agent.start()
    begin = time.monotonic()
    run_on_node.wait_for_agent(config, most_s=1.0 if not seen else 60.0)
    waited_s = time.monotonic() - begin
    agent.cancel()
    assert 0.25 < waited_s < 30 if seen else waited_s >= 1.0


def test_without_an_agent_or_its_drain_a_test_begins_at_once(tmp_path: Path) -> None:
    begin = time.monotonic()
    run_on_node.wait_for_agent(configured(tmp_path, SHM), most_s=300.0)
    run_on_node.wait_for_agent(tmp_path / "no.yaml", most_s=300.0)
    assert time.monotonic() - begin < 100


def test_a_path_where_nothing_is_mounted_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = configured(tmp_path, tmp_path)
    assert run_on_node.main(["storage", "--config", str(config), "--for-return"]) == 0
    result = decode(capfd.readouterr().out)
    assert result is not None
    assert result.verdict is CheckOutcome.FAILED
    assert "not mounted" in result.detail
    assert not (tmp_path / "state/history").exists(), "the agent records its own tests"


@needs_a_mount
def test_blocks_with_wrong_data_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    correct = storage_program._fill

    def corrupt(fd: int, back: object) -> None:
        correct(fd, back)  # type: ignore[arg-type]
        back[5] = 255 - back[5]  # type: ignore[index]

    monkeypatch.setattr(storage_program, "_fill", corrupt)
    assert storage_program.measure(SHM, 8 << 20)["wrong_blocks"] == 2


def test_a_broken_configuration_could_not_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "holdfast.yaml"
    path.write_text("active: {storage: {size_mib: many}}\n")
    assert run_on_node.main(["storage", "--config", str(path), "--for-return"]) == 0
    result = decode(capfd.readouterr().out)
    assert result is not None
    assert result.verdict is CheckOutcome.ERROR
    assert "size_mib" in result.detail


def test_a_program_that_hangs_is_abandoned_and_its_output_kept() -> None:
    script = "import time; print('begun', flush=True); time.sleep(60)"
    ran = run_on_node.execute([sys.executable, "-c", script], 1.0)
    assert ran.status is None
    assert ran.out == "begun\n"
    ended = run_on_node.execute([sys.executable, "-c", "import sys; sys.exit(3)"], 10)
    assert (ended.status, ended.out) == (3, "")
    with pytest.raises(Missing):
        run_on_node.execute(["/no/such/program"], 10)


def test_slurms_gpu_variables_do_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    script = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"
    assert run_on_node.execute([sys.executable, "-c", script], 10).out == "None\n"


def test_the_hardware_of_the_host(tmp_path: Path) -> None:
    device = tmp_path / "bus/pci/devices/0000:18:00.0"
    device.mkdir(parents=True)
    files = {"vendor": "0x10de", "class": "0x030200", "current_link_width": "16"}
    for name, text in files.items():
        (device / name).write_text(text + "\n")
    (tmp_path / "bus/pci/devices/0000:00:00.0").mkdir()
    found = list(host_program.pci(tmp_path))
    assert [(device["address"], device["kind"]) for device in found] == [("0000:18:00.0", "gpu")]
    assert found[0]["max_link_width"] == ""
    assert host_program.modules(tmp_path) is None
    (tmp_path / "modules").write_text("nvidia_uvm 1 0 - Live\nnvidia 2 1 nvidia_uvm, Live\n")
    assert host_program.modules(tmp_path) == ["nvidia", "nvidia_uvm"]
    hardware = host_program.hardware(Path("/proc"))
    assert hardware["cpus"] >= 1
    assert hardware["memory_bytes"] > 1 << 20
    assert json.dumps(hardware)


# --- the return test's choice among alternatives


class Bench:
    """A reservation whose checks have the given verdicts."""

    def __init__(self, *verdicts: CheckOutcome) -> None:
        self._verdicts: Iterator[CheckOutcome] = iter(verdicts)
        self.ran: list[str] = []

    def take(self, purpose: Purpose, nodes: list[SlurmName], **about: object) -> ReservedNodes:
        assert purpose is Purpose.RETURN_TEST
        return cast("ReservedNodes", None)

    def test(self, reserved: ReservedNodes, check: str, *, for_return: bool) -> Result:
        assert for_return
        self.ran.append(check)
        return Result(check=check, verdict=next(self._verdicts), detail=f"{check} detail", wall_s=1)


def return_result(tester: Bench) -> Result:
    checks = ("dcgm_diag_r2", "gpu_burn")
    return return_test.run(cast("NodeReservation", tester), SlurmName("worker-1"), checks, "r", 60)


def test_the_first_check_that_can_run_decides() -> None:
    only = Bench(CheckOutcome.FAILED)
    assert return_result(only).verdict is CheckOutcome.FAILED
    assert only.ran == ["dcgm_diag_r2"]
    second = Bench(CheckOutcome.ERROR, CheckOutcome.PASSED)
    assert (return_result(second).verdict, return_result(Bench(CheckOutcome.PASSED)).check) == (
        CheckOutcome.PASSED,
        "dcgm_diag_r2",
    )
    none = return_result(Bench(CheckOutcome.ERROR, CheckOutcome.ERROR))
    assert none.verdict is CheckOutcome.ERROR
    assert none.check == "dcgm_diag_r2 or gpu_burn"
    assert none.detail == "dcgm_diag_r2 detail; gpu_burn detail"


def test_a_node_that_cannot_be_reserved_is_not_tested() -> None:
    class Busy(Bench):
        def take(self, purpose: Purpose, nodes: list[SlurmName], **about: object) -> ReservedNodes:
            raise Occupied("worker-1 is under test by login-0")

    result = return_result(Busy())
    assert (result.verdict, result.wall_s) == (CheckOutcome.ERROR, 0)
