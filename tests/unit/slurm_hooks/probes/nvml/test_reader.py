"""The NVML probe through the real binding, over a simulated library below it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_hooks.facts import GpuFabric, GpuFacts, GpuProcess, GpuRows, NvmlFacts
from slurm_hooks.probes.nvml import reader as probe
from slurm_hooks.probes.nvml.calls import LIBRARY_NOT_FOUND
from slurm_hooks.worker.worker import Worker, call
from tests.unit.slurm_hooks.conftest import SimulatedNvml


@pytest.fixture
def worker(nvml: SimulatedNvml) -> Iterator[Worker]:
    made = Worker("nvml", lambda: probe.open_probe(nvml.library))
    yield made
    made.close()


def read(worker: Worker) -> NvmlFacts:
    answer = call(worker, "read", deadline_s=20)
    assert answer.complete, answer.error
    facts = probe.assemble(answer.items)
    assert facts is not None
    return facts


def gpu(worker: Worker, index: int) -> GpuFacts:
    return read(worker).gpus[index]


def test_a_healthy_node(worker: Worker) -> None:
    facts = read(worker)
    assert facts.count == 8
    assert facts.init_code is None
    first = facts.gpus[0]
    assert first.pci == "0000:53:00"
    assert first.name == "NVIDIA H100 80GB HBM3"
    assert first.uuid is not None
    assert first.uuid.startswith("GPU-")
    assert first.nvlinks == (True,) * 18
    assert (first.pcie_width, first.pcie_max_width) == (16, 16)
    assert (first.recovery_action, first.remap_pending, first.remap_failed) == (0, False, False)
    assert (first.uncorrected, first.state_code, first.errors) == (0, None, ())
    assert first.slowdown_margin_c == -2
    assert first.thermal_margin_c is not None
    assert len({gpu.uuid for gpu in facts.gpus}) == 8


def test_all_values_of_a_healthy_gpu(worker: Worker) -> None:
    second = gpu(worker, 1)
    missing = [
        name
        for name in GpuFacts.__dataclass_fields__
        if getattr(second, name) is None and name not in ("state_code", "uncorrected_new")
    ]
    assert missing == []
    assert second.fabric == GpuFabric(state=3)
    assert second.spare_rows == GpuRows(full=2560, high=0, partial=0, low=0, none=0)
    assert second.link_replays == second.link_crc_errors == (0,) * 18
    assert (second.pcie_replays, second.power_violation_ns) == (150, 7015662857000)
    assert (second.persistence, second.ecc_on, second.mig, second.compute_mode) == (
        True, True, False, 0,
    )  # fmt: skip
    assert second.processes == ()
    assert second.memory_total_bytes == 81559 << 20
    assert second.where == "GPU 1 0000:64:00"


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("ecc.uncorr.agg.sram = 4", "uncorrected_ever", 4),
        ("ecc.uncorr.agg.sram = 4", "sram_uncorrected_ever", 4),
        ("ecc.corr.vol.dram = 9", "corrected", 9),
        ("ecc.corr.agg.dram = 9", "corrected_ever", 9),
        ("sram_threshold = 1", "sram_threshold_exceeded", True),
        ("remap.unc = 2", "remapped_rows", 2),
        ("repair.tpc = 1", "repair_pending", True),
        ("histo.low = 3", "spare_rows", GpuRows(full=2560, high=0, partial=0, low=3, none=0)),
        ("link.17.crc = 5", "link_crc_errors", (0,) * 17 + (5,)),
        ("link.0.replay = 5", "link_replays", (5,) + (0,) * 17),
        ("link.0.recovery = 5", "link_recoveries", (5,) + (0,) * 17),
        ("links = 12", "nvlinks", (True,) * 12),
        ("links = 0", "nvlinks", None),
        ("fabric.state = 0", "fabric", None),
        ("fabric.status = 999", "fabric", GpuFabric(state=3, status=999)),
        ("fabric.health = 17", "fabric", GpuFabric(state=3, health=17)),
        ("fabric.summary = 2", "fabric", GpuFabric(state=3, summary=2)),
        ("pcie_replay = 151", "pcie_replays", 151),
        ("pcie_gen = 1", "pcie_gen", 1),
        ("violation.1 = 5000", "thermal_violation_ns", 5000),
        ("held.sw_heat = 5", "sw_thermal_slowdown_ns", 5),
        ("held.hw_heat = 5", "hw_thermal_slowdown_ns", 5),
        ("held.power_brake = 5", "hw_power_brake_slowdown_ns", 5),
        ("mem_temp = 98", "memory_temperature_c", 98),
        ("persistence = 0", "persistence", False),
        ("ecc_pending = 0", "ecc_pending", False),
        ("mig = 1", "mig", True),
        ("compute_mode = 2", "compute_mode", 2),
        ("mem_used = 1024", "memory_used_bytes", 1024),
        ("proc = 42:1024 43:7", "processes", (GpuProcess(pid=42, used_bytes=1024), GpuProcess(pid=43, used_bytes=7))),
    ],
)  # fmt: skip
def test_each_value_is_read_live(
    worker: Worker, nvml: SimulatedNvml, line: str, name: str, value: object
) -> None:
    assert getattr(gpu(worker, 3), name) != value
    nvml.set("gpu.3." + line.split(" = ")[0], line.split(" = ")[1])
    third = gpu(worker, 3)
    assert getattr(third, name) == value
    assert third.errors == ()


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("rc.nvmlDeviceGetTotalEccErrors", ("uncorrected", "uncorrected_ever", "corrected")),
        ("rc.nvmlDeviceGetSramEccErrorStatus", ("sram_threshold_exceeded",)),
        ("rc.nvmlDeviceGetRowRemapperHistogram", ("spare_rows",)),
        ("rc.nvmlDeviceGetRepairStatus", ("repair_pending",)),
        ("rc.nvmlDeviceGetGpuFabricInfoV", ("fabric",)),
        ("rc.nvmlDeviceGetPersistenceMode", ("persistence",)),
        ("rc.nvmlDeviceGetComputeMode", ("compute_mode",)),
        ("rc.nvmlDeviceGetMigMode", ("mig", "mig_pending")),
        ("rc.nvmlDeviceGetComputeRunningProcesses_v3", ("processes",)),
        ("rc.nvmlDeviceGetMemoryInfo_v2", ("memory_used_bytes",)),
        ("rc.nvmlDeviceGetSerial", ("serial",)),
        (
            "rc.nvmlDeviceGetFieldValues",
            ("nvlinks", "pcie_replays", "ecc_on", "thermal_violation_ns"),
        ),
        ("fieldrc.163", ("link_crc_errors",)),
        ("fieldrc.94", ("pcie_replays",)),
        ("fieldrc.271", ("hw_power_brake_slowdown_ns",)),
    ],
)
@pytest.mark.parametrize("code", [2, 3, 13])
def test_each_is_none_where_it_is_not_supported(
    worker: Worker, nvml: SimulatedNvml, key: str, names: tuple[str, ...], code: int
) -> None:
    nvml.set(f"gpu.*.{key}", code)
    first = gpu(worker, 0)
    assert [getattr(first, name) for name in names] == [None] * len(names)
    assert first.errors == ()
    assert first.temperature_c == 29, "the rest is read all the same"


def test_the_fabric_of_an_older_driver_is_read_too(worker: Worker, nvml: SimulatedNvml) -> None:
    nvml.set("gpu.*.fabric.version", 2)
    nvml.set("gpu.*.fabric.summary", 2)
    nvml.set("gpu.*.fabric.health", 1)
    first = gpu(worker, 0)
    assert first.fabric == GpuFabric(state=3, health=1), "the summary came with the third version"
    assert first.errors == ()


def test_links_are_read_one_by_one_if_the_driver_has_no_field_for_them(
    worker: Worker, nvml: SimulatedNvml
) -> None:
    nvml.set("gpu.*.fieldrc.165", 3)
    nvml.set("gpu.0.link.5.state", 0)
    assert gpu(worker, 0).nvlinks == (*(True,) * 5, False, *(True,) * 12)


def test_constant_values_are_read_again_for_another_gpu_at_the_same_index(
    worker: Worker, nvml: SimulatedNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    monkeypatch.setenv("NVMLSIM_TRACE", str(trace))
    read(worker)
    nvml.set("gpu.2.vbios", "other")
    assert gpu(worker, 2).vbios == "96.00.99.00.01", "a VBIOS does not change while the driver runs"
    nvml.set("gpu.2.uuid", "GPU-successor")
    second = gpu(worker, 2)
    assert (second.uuid, second.vbios) == ("GPU-successor", "other")
    calls = [line.split()[1:3] for line in trace.read_text().splitlines()]
    assert calls.count(["nvmlDeviceGetVbiosVersion", "1"]) == 1
    assert calls.count(["nvmlDeviceGetVbiosVersion", "2"]) == 2
    assert calls.count(["nvmlSystemGetDriverVersion", "-1"]) == 1
    batches = calls.count(["nvmlDeviceGetFieldValues", "1"])
    assert batches == 4, "the first pass reads the number of links, then one batch per pass"


def test_constant_values_are_read_again_after_some_passes_and_after_a_failure(
    worker: Worker, nvml: SimulatedNvml
) -> None:
    read(worker)
    nvml.set("gpu.2.rc.nvmlDeviceGetInforomImageVersion", 14)
    errors = [gpu(worker, 2).errors for _ in range(32)]
    first = next(index for index, failed in enumerate(errors) if failed)
    assert first > 5
    assert set(errors[first:]) == {(("nvmlDeviceGetInforomImageVersion", 14),)}


def test_a_gpu_without_a_handle_is_known_by_its_errors(worker: Worker, nvml: SimulatedNvml) -> None:
    read(worker)
    nvml.set("gpu.6.rc.nvmlDeviceGetHandleByIndex_v2", 999)
    sixth = gpu(worker, 6)
    assert sixth.errors == (("nvmlDeviceGetHandleByIndex", 999),)
    assert (sixth.pci, sixth.temperature_c, sixth.answers) == ("0000:b9:00", None, False)


def test_a_gpu_that_is_lost_later_in_the_read_keeps_its_name(
    worker: Worker, nvml: SimulatedNvml
) -> None:
    nvml.set("gpu.4.rc.nvmlDeviceGetFieldValues", 15)
    fourth = gpu(worker, 4)
    assert (fourth.state_code, fourth.pci) == (15, "0000:97:00")
    nvml.set("gpu.4.rc.nvmlDeviceGetFieldValues", 0)
    nvml.set("gpu.4.fieldrc.230", 16)
    assert gpu(worker, 4).state_code == 16


def test_faults_appear_in_a_worker_that_already_runs(worker: Worker, nvml: SimulatedNvml) -> None:
    read(worker)
    nvml.set("gpu.3.recovery_action", 2)
    nvml.set("gpu.3.remap.pending", 1)
    nvml.set("gpu.3.ecc.uncorr.vol.dram", 4)
    nvml.set("gpu.3.link.7.state", 0)
    nvml.set("gpu.3.clocks_event", 0x80)
    nvml.set("gpu.3.pcie_width", 8)
    third = gpu(worker, 3)
    assert third.recovery_action == 2
    assert third.remap_pending
    assert third.uncorrected == 4
    assert third.nvlinks is not None
    assert [link for link, up in enumerate(third.nvlinks) if not up] == [7]
    assert third.clock_reasons == 0x80
    assert third.pcie_width == 8


@pytest.mark.parametrize("code", [15, 16])
def test_a_return_code_for_the_gpu_as_a_whole(
    worker: Worker, nvml: SimulatedNvml, code: int
) -> None:
    nvml.set("gpu.5.rc.*", code)
    facts = read(worker)
    assert facts.count == 8
    assert facts.gpus[5].state_code == code
    assert facts.gpus[6].state_code is None


def test_values_that_are_not_supported_are_unknown(worker: Worker, nvml: SimulatedNvml) -> None:
    nvml.set("gpu.*.rc.nvmlDeviceGetRemappedRows", 3)
    nvml.set("gpu.*.rc.nvmlDeviceGetMarginTemperature", 13)
    nvml.set("gpu.*.fieldrc.230", 3)
    first = gpu(worker, 0)
    assert (first.remap_pending, first.thermal_margin_c, first.recovery_action) == (None,) * 3
    assert first.errors == ()
    assert first.uncorrected == 0, "the rest is read all the same"


def test_another_failure_is_kept_with_its_call(worker: Worker, nvml: SimulatedNvml) -> None:
    nvml.set("gpu.0.rc.nvmlDeviceGetTotalEccErrors", 999)
    first = gpu(worker, 0)
    assert set(first.errors) == {("nvmlDeviceGetTotalEccErrors", 999)}
    assert first.uncorrected is None


def test_a_driver_that_is_loaded_later(worker: Worker, nvml: SimulatedNvml) -> None:
    nvml.set("sys.rc.nvmlInitWithFlags", 9)
    down = read(worker)
    assert (down.count, down.init_code) == (None, 9)
    nvml.set("sys.rc.nvmlInitWithFlags", 0)
    assert read(worker).count == 8


def test_one_gpu_less(worker: Worker, nvml: SimulatedNvml) -> None:
    nvml.set("count", 7)
    facts = read(worker)
    assert facts.count == 7
    assert len(facts.gpus) == 7


def test_a_library_that_does_not_exist(tmp_path: Path) -> None:
    worker = Worker("nvml", lambda: probe.open_probe(str(tmp_path / "no.so")))
    answer = call(worker, "read", deadline_s=20)
    facts = probe.assemble(answer.items)
    worker.close()
    assert facts is not None
    assert facts.init_code == LIBRARY_NOT_FOUND
    assert "no.so" in facts.init_error


def test_after_a_release_the_driver_is_opened_again(worker: Worker) -> None:
    assert call(worker, probe.RELEASE, deadline_s=20).complete
    assert read(worker).count == 8


def test_a_whole_pass_is_quick(worker: Worker) -> None:
    read(worker)
    walls = sorted(call(worker, "read", deadline_s=20).wall_s for _ in range(10))
    assert walls[0] < 1
