"""The NVML probe through the real binding, over a simulated library below it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_hooks.contain import Worker, call
from slurm_hooks.facts import GpuFacts, NvmlFacts
from slurm_hooks.probes import nvml as probe
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
def test_a_gpu_that_speaks_as_a_whole(worker: Worker, nvml: SimulatedNvml, code: int) -> None:
    nvml.set("gpu.5.rc.*", code)
    facts = read(worker)
    assert facts.count == 8
    assert facts.gpus[5].state_code == code
    assert facts.gpus[6].state_code is None


def test_what_is_not_supported_is_no_opinion(worker: Worker, nvml: SimulatedNvml) -> None:
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


def test_a_driver_that_is_not_loaded_and_then_is(worker: Worker, nvml: SimulatedNvml) -> None:
    nvml.set("sys.rc.nvmlInitWithFlags", 9)
    down = read(worker)
    assert (down.count, down.init_code) == (None, 9)
    nvml.set("sys.rc.nvmlInitWithFlags", 0)
    assert read(worker).count == 8


def test_a_gpu_less(worker: Worker, nvml: SimulatedNvml) -> None:
    nvml.set("count", 7)
    facts = read(worker)
    assert facts.count == 7
    assert len(facts.gpus) == 7


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    worker = Worker("nvml", lambda: probe.open_probe(str(tmp_path / "no.so")))
    answer = call(worker, "read", deadline_s=20)
    facts = probe.assemble(answer.items)
    worker.close()
    assert facts is not None
    assert facts.init_code == probe.LIBRARY_NOT_FOUND
    assert "no.so" in facts.init_error


def test_after_a_release_the_driver_is_opened_again(worker: Worker) -> None:
    assert call(worker, probe.RELEASE, deadline_s=20).complete
    assert read(worker).count == 8


def test_a_whole_pass_is_quick(worker: Worker) -> None:
    read(worker)
    walls = sorted(call(worker, "read", deadline_s=20).wall_s for _ in range(10))
    assert walls[0] < 1
