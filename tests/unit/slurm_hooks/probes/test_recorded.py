"""Recordings of real H100 nodes, judged by every check in mode drain."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.vocabulary import Mode
from slurm_hooks import checks
from slurm_hooks.evaluation.judge import fold, opened
from slurm_hooks.evaluation.observer import demand
from slurm_hooks.facts import KmsgFacts, NodeFacts, NvmlFacts, PcieFacts
from slurm_hooks.probes.nvml import reader as probe
from slurm_hooks.settings.sections import CheckConfig
from slurm_hooks.tracking.node import Streak, TrackedState, saw_gpus
from slurm_hooks.worker.worker import Worker, call
from tests.unit.slurm_hooks import recorded
from tests.unit.slurm_hooks.conftest import SimulatedNvml

HEALTHY = "idle-580.105.08"
BRAKED = "power-brake-535.161.08"
ODD = "one-gpu-at-work-535.183.01"
TABLE = {
    name: CheckConfig(limits=checks.load(name).limits(), mode=Mode.DRAIN)
    for name in checks.CATALOGUE
}
INTERVAL_S, LONG = 10.0, 120
"""Twenty minutes: the longest window but that of NVLink's replays is ten."""

Read = Callable[[str], NvmlFacts]


@pytest.fixture
def read(nvml: SimulatedNvml) -> Any:
    workers: list[Worker] = []

    def read_(name: str) -> NvmlFacts:
        nvml.state.write_text("\n".join(recorded.state_lines(recorded.load(name))) + "\n")
        workers.append(Worker("nvml", lambda: probe.open_probe(nvml.library)))
        answer = call(workers[-1], "read", deadline_s=30)
        assert answer.complete, answer.error
        facts = probe.assemble(answer.items)
        assert facts is not None
        return facts

    yield read_
    for worker in workers:
        worker.close()


def found(nvml: NvmlFacts, passes: int, *, bus: bool = True) -> set[tuple[str, int | None]]:
    """What is open after so many passes: (code, GPU)."""
    memory = TrackedState(boot_id="b")
    streaks: dict[str, Streak] = {}
    pcie = tuple(
        PcieFacts(pci=str(gpu.pci), width=gpu.pcie_width, max_width=gpu.pcie_max_width)
        for gpu in nvml.gpus
    )
    for turn in range(passes):
        now = 1_000_000.0 + turn * INTERVAL_S
        memory, seen = saw_gpus(memory, nvml, demand, now)
        facts = NodeFacts(
            expected_gpus=8, nvml=seen, kmsg=KmsgFacts(now_s=now), pcie=pcie if bus else None
        )
        looked = frozenset({"nvml", "sysfs", "kmsg"})
        streaks = fold(streaks, TABLE, facts, looked, now)
    return {(entry.finding.code, entry.finding.gpu) for entry in opened(streaks, TABLE)}


def test_a_healthy_node_never_has_a_finding(read: Read) -> None:
    nvml = read(HEALTHY)
    assert found(nvml, 1) == found(nvml, LONG) == set()


def test_the_probe_reads_the_recorded_values(read: Read) -> None:
    nvml = read(HEALTHY)
    assert (nvml.driver, nvml.count) == ("580.105.08", 8)
    third = nvml.gpus[2]
    assert (third.pci, third.serial) == ("0000:75:00", "1650000000003")
    assert (third.vbios, third.inforom) == ("96.00.99.00.01", "G520.0200.00.05")
    assert (third.pcie_replays, third.thermal_margin_c, third.slowdown_margin_c) == (174, 57, -2)
    assert third.power_violation_ns == 7015478833000, "7,016 s of power cap, and healthy"
    assert third.spare_rows is not None
    assert third.spare_rows.full == 2560
    assert {gpu.pcie_replays for gpu in nvml.gpus} == {150, 144, 174, 158, 145, 172, 162, 106}
    assert not any(gpu.errors for gpu in nvml.gpus)


def test_power_brakes_of_a_real_node_are_found_on_every_gpu_and_nothing_else(read: Read) -> None:
    nvml = read(BRAKED)
    assert found(nvml, 1) == set(), "a brake may be on for a moment"
    assert found(nvml, LONG) == {("GPU_POWER_BRAKE", index) for index in range(8)}


def test_one_odd_pass_opens_nothing_and_lasting_values_open_their_finding(read: Read) -> None:
    nvml = read(ODD)
    assert found(nvml, 2) == set()
    assert found(nvml, LONG) == {("GPU_POWER_BRAKE", 2)}


def test_values_that_an_old_driver_does_not_know_are_unknown(read: Read) -> None:
    nvml = read(BRAKED)
    for gpu in nvml.gpus:
        assert (gpu.recovery_action, gpu.thermal_margin_c, gpu.repair_pending) == (None,) * 3
        assert (gpu.thermal_violation_ns, gpu.hw_thermal_slowdown_ns, gpu.errors) == (
            None,
            None,
            (),
        )
        assert gpu.hw_power_brake_slowdown_ns is None


@pytest.mark.parametrize("name", recorded.NAMES)
def test_no_recording_names_a_piece_of_hardware(name: str) -> None:
    node = recorded.load(name)
    for index, gpu in enumerate(node["gpu"]):
        assert gpu["uuid"] == f"GPU-0000000{index}-0000-0000-0000-00000000000{index}"
        assert gpu["serial"] == f"165000000000{index + 1}"
    assert node["source"].split()[0] in ("NVIDIA/k8s-test-infra", "leptonai/gpud")
    assert f"`{name}.json`" in (recorded.FOLDER / "README.md").read_text()


def test_the_recorder_reads_xml_and_text_alike(tmp_path: Path) -> None:
    import subprocess
    import sys

    xml = tmp_path / "q.xml"
    xml.write_text(
        "<nvidia_smi_log><timestamp>T</timestamp><driver_version>1</driver_version>"
        "<attached_gpus>1</attached_gpus><gpu><serial>77</serial><pci><replay_counter>5"
        "</replay_counter></pci><compute_mode>Default</compute_mode></gpu></nvidia_smi_log>"
    )
    text = tmp_path / "q.txt"
    text.write_text(
        "==NVSMI LOG==\n\nTimestamp   : T\nDriver Version  : 1\nAttached GPUs : 1\n"
        "GPU 00000000:53:00.0\n    Serial Number : 77\n    PCI\n"
        "        Replays Since Reset      : 5\n    Compute Mode     : Default\n"
    )
    recordings = []
    for path in (xml, text):
        argv = [sys.executable, str(recorded.FOLDER / "record.py"), str(path), "here"]
        recordings.append(json.loads(subprocess.run(argv, capture_output=True, check=True).stdout))
    assert recordings[0] == recordings[1]
    assert recordings[0]["gpu"][0]["pci/replay_counter"] == "5"
    assert "77" not in json.dumps(recordings), "serial numbers do not get through"
