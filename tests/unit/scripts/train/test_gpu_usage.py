"""The samples of GPU utilization and their summary."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gpu_usage import sample, summary


class NvmlError(Exception):
    """As pynvml.NVMLError."""


class Nvml:
    """A node of two GPUs, of which the second is lost. Real NVML is asked in tests/e2e."""

    NVMLError = NvmlError
    NVML_TEMPERATURE_GPU = 0

    @staticmethod
    def nvmlDeviceGetCount() -> int:  # noqa: N802 - NVML's name
        return 2

    @staticmethod
    def nvmlDeviceGetHandleByIndex(index: int) -> int:  # noqa: N802
        if index:
            raise NvmlError("GPU is lost")
        return index

    @staticmethod
    def nvmlDeviceGetUtilizationRates(_: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=97)

    @staticmethod
    def nvmlDeviceGetMemoryInfo(_: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=1 << 30)

    @staticmethod
    def nvmlDeviceGetTemperature(_: int, _kind: int) -> int:  # noqa: N802
        return 61

    @staticmethod
    def nvmlDeviceGetPowerUsage(_: int) -> int:  # noqa: N802
        return 612_345


def test_a_lost_gpu_does_not_end_the_others_figures() -> None:
    healthy, lost = sample(Nvml)
    assert healthy == {
        "gpu": 0,
        "used_percent": 97,
        "memory_bytes": 1 << 30,
        "temperature_c": 61,
        "power_w": 612.3,
    }
    assert lost == {"gpu": 1, "error": "GPU is lost"}


def test_the_summary() -> None:
    records: list[dict[str, Any]] = [
        {"gpu": 1, "error": "GPU is lost"},
        {"gpu": 0, "used_percent": 100},
        {"gpu": 0, "used_percent": 3},
        {"gpu": 0, "error": "Timeout"},
    ]
    assert summary("worker-1", records).splitlines() == [
        "worker-1 GPU 0: 52 % used, idle in 1 of 2 samples, no answer in 1",
        "worker-1 GPU 1: no figures, no answer in 1",
    ]
    assert summary("worker-1", []) == ""
